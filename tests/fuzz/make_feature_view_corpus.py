#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpus of fuzz_feature_view: python3 tests/fuzz/make_feature_view_corpus.py"""
import pathlib
import struct

FOLDER = pathlib.Path(__file__).parent / "corpus" / "feature_view"


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def entry(name, value):
    return field(1, field(1, name) + field(2, value))


def ints(*values):
    return field(3, field(1, b"".join(varint(v & (1 << 64) - 1) for v in values)))


def floats(*values):
    return field(2, field(1, struct.pack("<%df" % len(values), *values)))


def texts(*values):
    return field(1, b"".join(field(1, v) for v in values))


def seeds():
    sparse = entry(b"index", ints(1, 300, 70000)) + entry(b"label", ints(1)) + entry(b"value", floats(1, 1, 1))
    yield "sparse", field(1, sparse)
    yield "bytes", field(1, entry(b"image", texts(b"\x89PNG", b"")))
    yield "negative", field(1, entry(b"n", ints(-1, -(1 << 63))))
    yield "unpacked_ints", field(1, entry(b"n", field(3, b"\x08\x01\x08\x96\x01" + field(1, b"\x05"))))
    yield "unpacked_floats", field(1, entry(b"f", field(2, b"\x0d\x00\x00\x80\x3f" + field(1, b"abcd"))))
    yield "same_key_twice", field(1, entry(b"k", ints(1)) + entry(b"k", floats(2)))
    yield "features_twice", field(1, entry(b"a", ints(1))) + field(1, entry(b"b", ints(2)))
    yield "value_before_key", field(1, field(1, field(2, ints(7)) + field(1, b"k")))
    yield "values_merge", field(1, field(1, field(1, b"k") + field(2, ints(7)) + field(2, ints(8))))
    yield "last_kind_wins", field(1, entry(b"k", ints(1) + texts(b"x") + ints(2)))
    yield "no_key", field(1, field(1, field(2, ints(7))))
    yield "no_value", field(1, field(1, field(1, b"k")))
    yield "unknown_fields", field(1, entry(b"k", ints(1) + b"\x28\x05")) + b"\x31" + b"8" * 8 + b"\x2d4444"
    yield "group", b"\x2b\x08\x01\x33\x34\x2c" + field(1, entry(b"k", ints(1)))
    yield "groups_96_deep", b"\x2b" * 96 + b"\x2c" * 96
    yield "long_tag", b"\x8a\x80\x80\x80\x00" + field(1, b"")[1:]
    yield "not_utf8", field(1, entry(b"\xff", ints(1)))
    yield "euro", field(1, entry("€".encode(), ints(1)))
    yield "text", b"hello world"
    lists = field(1, field(1, b"l") + field(2, field(1, ints(1, 2)) + field(1, texts(b"x")) + field(1, b"")))
    yield "sequence", field(1, sparse) + field(2, lists)
    yield "empty", b""


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main()
