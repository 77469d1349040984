#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the records of TFRecord files by other means than the project's own: Python's gzip, a plain CRC-32C.

Prints one line per file: the number of records, their data bytes, and the path. Fails if a record is corrupt.
"""
import gzip
import struct
import sys

TABLE = []
for byte in range(256):
    crc = byte
    for _ in range(8):
        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    TABLE.append(crc)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def count(path):
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    at = records = total = 0
    while at < len(data):
        length, length_crc = struct.unpack_from("<QI", data, at)
        assert length_crc == masked_crc(data[at : at + 8]), f"{path}: {at}: length CRC"
        body = data[at + 12 : at + 12 + length]
        (data_crc,) = struct.unpack_from("<I", data, at + 12 + length)
        assert data_crc == masked_crc(body), f"{path}: {at}: data CRC"
        at += 16 + length
        total += length
        records += 1
    return records, total


def main():
    for path in sys.argv[1:]:
        records, total = count(path)
        print(records, total, path)


if __name__ == "__main__":
    main()
