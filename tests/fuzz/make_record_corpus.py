#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpora of the record and example fuzzers: python3 make_record_corpus.py FOLDER (tests/fuzz/corpus)."""
import gzip
import os
import struct
import sys
import zlib


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(data, length=None):
    header = struct.pack("<Q", len(data) if length is None else length)
    return header + masked(header) + data + masked(data)


def varint(n):
    out = b""
    n &= (1 << 64) - 1
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def entry(name, kind, values):
    return field(1, field(1, name) + field(2, field(kind, field(1, values))))


def example(label, keys, values, extra=b""):
    index = b"".join(varint(k) for k in keys)
    floats = struct.pack("<%df" % len(values), *values)
    return field(1, entry(b"index", 3, index) + entry(b"label", 3, varint(label)) + entry(b"value", 2, floats) + extra)


def write(folder, name, data):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as out:
        out.write(data)


def main():
    root = sys.argv[1]
    two = frame(b"hello") + frame(b"") + frame(b"\x00" * 40)
    record = os.path.join(root, "record")
    write(record, "plain", two)
    write(record, "empty", b"")
    write(record, "gzip", gzip.compress(two, mtime=0))
    write(record, "zlib", zlib.compress(two))
    write(record, "cut", two[:-3])
    write(record, "flipped", two[:14] + b"X" + two[15:])
    write(record, "missing_byte", two[:14] + two[15:])
    write(record, "huge_claim", frame(b"a") + frame(b"b", length=1 << 45) + frame(b"c"))
    write(record, "nested", frame(frame(b"inner") * 2) + frame(b"x"))
    write(record, "lines", b"one\r\n\ntwo\nthree")
    folder = os.path.join(root, "example")
    keys = [0, 1, 127, 128, 16383, 16384, 2097151, 33762577]
    write(folder, "ones", example(1, keys, [1.0] * 8))
    write(folder, "values", example(0, keys[:3], [0.5, -1.0, 3e9]))
    write(folder, "minus_one", example(-1, keys * 5, [1.0] * 40))
    write(folder, "long_keys", example(1, [1 << 40, (1 << 64) - 1], [1.0, 2.0]))
    write(folder, "weight", example(1, keys, [1.0] * 8, entry(b"weight", 2, struct.pack("<f", 2.5))))
    write(folder, "extra", example(1, keys, [1.0] * 8, entry(b"id", 1, b"abc")))
    write(folder, "label_twice", example(1, keys, [1.0] * 8, entry(b"label", 3, b"\x00")))
    write(folder, "mismatch", example(1, keys, [1.0] * 7))


if __name__ == "__main__":
    main()
