#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus of fuzz_score_request: requests of each kind, and invalid ones.

Usage: make_score_request_corpus.py CORPUS_DIR
"""
import pathlib
import struct
import sys

JSON = {
    "rows": '{"rows": [{"a": "x", "b": {"c": 1.5}}, {"a": ["x", 1, true, null]}, {}]}',
    "columns": '{"rows": {"a": ["x", "y", null], "b.c": [1, 2.5, [3, 4]]}}',
    "candidates": '{"context": {"a": "u"}, "candidates": [{"b": {"c": 1}}, {"a": 18446744073709551615}], "output": "margin"}',
    "candidate_columns": '{"context": {"a": "u"}, "candidates": {"b.c": [1, 2]}}',
    "keys": '{"keys": [[1, 2], [18446744073709551614], []], "values": [[1, 0.5], [2], []]}',
    "fields": '{"keys": [[1, 2]], "fields": [[0, 65535]]}',
    "key_candidates": '{"context_keys": [1], "candidate_keys": [[2], [3, 4]], "context_values": [2], "candidate_values": [[1], [1, 1e30]]}',
    "unknown": '{"rows": [{"zz": 1}]}',
    "twice": '{"rows": [{"a": 1, "a": 2}]}',
    "unequal": '{"rows": {"a": [1], "b.c": [1, 2]}}',
    "unequal_values": '{"keys": [[1, 2]], "values": [[1]]}',
    "largest": '{"keys": [[18446744073709551615]]}',
    "wrong": '{"context": 1, "keys": 2}',
    "cut": '{"rows": [{"a": "',
    "deep": '{"rows": [' + '{"a":' * 40 + "1" + "}" * 40 + "]}",
}


def text(value):
    return struct.pack(">i", len(value)) + value


def field(kind, number, value=b""):
    return struct.pack(">bh", kind, number) + value


BYTE_STOP, DOUBLE, I16, I32, I64, STRING, STRUCT, MAP, LIST = b"\0", 4, 6, 8, 10, 11, 12, 13, 15


def call(name, *arguments):
    return struct.pack(">I", 0x80010001) + text(name) + struct.pack(">i", 1) + b"".join(arguments) + BYTE_STOP


def items(kind, values):
    return struct.pack(">bi", kind, len(values)) + b"".join(values)


def keys(*numbers):
    return (field(LIST, 1, items(I64, [struct.pack(">q", n) for n in numbers])) +
            field(LIST, 2, items(DOUBLE, [struct.pack(">d", 0.5) for _ in numbers])) + BYTE_STOP)


def row(name, value):
    return field(MAP, 1, struct.pack(">bbi", STRING, STRING, 1) + text(name) + text(value)) + BYTE_STOP


OUTPUT = field(I32, 2, struct.pack(">i", 1))
THRIFT = {
    "score_keys": call(b"score_keys", field(LIST, 1, items(STRUCT, [keys(1, 2), keys()])), OUTPUT),
    "score_rows": call(b"score_rows", field(LIST, 1, items(STRUCT, [row(b"a", b"x")])), OUTPUT),
    "score_key_candidates": call(b"score_key_candidates", field(STRUCT, 1, keys(1)),
                                 field(LIST, 2, items(STRUCT, [keys(3)]))),
    "score_candidates": call(b"score_candidates", field(STRUCT, 1, row(b"a", b"x")),
                             field(LIST, 2, items(STRUCT, [row(b"b.c", b"2")]))),
    "challenge": call(b"challenge"),
    "authenticate": call(b"authenticate", field(STRING, 1, text(b"x" * 32))),
    "other_call": call(b"other"),
    "long_list": call(b"score_keys", field(LIST, 1, struct.pack(">bi", STRUCT, 1 << 30))),
    "cut_call": call(b"score_keys", field(LIST, 1, items(STRUCT, [keys(1, 2)])))[:40],
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, body in JSON.items():
        (folder / name).write_bytes(b"j" + body.encode())
    for name, body in THRIFT.items():
        (folder / name).write_bytes(b"t" + body)


main()
