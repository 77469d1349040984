#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists the events of TensorBoard files, by the formats alone. Usage: list_events.py FILE...

A line for each event, cells separated by tabs: wall time, step, and then one of
version TEXT | scalar TAG VALUE | tensor TAG | session STATUS | other FIELDS.
A last record that is cut is listed as "torn". Anything else that is wrong ends the program with status 1.
"""
import struct
import sys


def make_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


TABLE = make_table()


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """Each record's bytes; None for a cut one at the end."""
    at = 0
    while at < len(data):
        if len(data) - at < 12:
            yield None
            return
        length, length_crc = struct.unpack_from("<QI", data, at)
        if length_crc != masked_crc(data[at : at + 8]):
            raise ValueError(f"offset {at}: length CRC")
        if len(data) - at < 16 + length:
            yield None
            return
        body = data[at + 12 : at + 12 + length]
        if struct.unpack_from("<I", data, at + 12 + length)[0] != masked_crc(body):
            raise ValueError(f"offset {at}: data CRC")
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of each field; fixed ones as their bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            if kind == 2:
                size, at = varint(data, at)
            else:
                size = {1: 8, 5: 4}[kind]
            value, at = data[at : at + size], at + size
            if len(value) != size:
                raise ValueError("a field that ends behind its message")
        yield tag >> 3, value


def describe_value(value):
    """A Summary.Value."""
    content = dict(fields(value))
    tag = content[1].decode()
    if 2 in content:
        return f"scalar\t{tag}\t{struct.unpack('<f', content[2])[0]:.9g}"
    return f"tensor\t{tag}"


def describe(event):
    content = dict(fields(event))
    head = f"{struct.unpack('<d', content.get(1, bytes(8)))[0]:.6f}\t{content.get(2, 0)}\t"
    if 3 in content:
        return [head + "version\t" + content[3].decode()]
    if 4 in content:
        nodes = [dict(fields(node)) for number, node in fields(content[4]) if number == 1]
        return [head + "graph\t" + ",".join(f"{node[1].decode()}:{node[2].decode()}" for node in nodes)]
    if 5 in content:
        return [head + describe_value(value) for number, value in fields(content[5]) if number == 1]
    if 7 in content:
        return [head + f"session\t{dict(fields(content[7])).get(1, 0)}"]
    return [head + "other\t" + ",".join(map(str, content))]


def main():
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            data = file.read()
        for record in records(data):
            print("torn" if record is None else "\n".join(describe(record)))


if __name__ == "__main__":
    try:
        main()
    except (ValueError, IndexError, KeyError) as error:
        sys.exit(f"not an event file: {error!r}")
