#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus of fuzz_score_rows: JSON lines and fields, a context first.

Usage: make_score_rows_corpus.py CORPUS_DIR
"""
import pathlib
import struct
import sys

A, B, N, S, LABEL, UNKNOWN = range(6)
TEXT, INT, FLOAT, DOUBLE, WRONG = range(5)


def field(name, kind, value, end=False):
    data = value if isinstance(value, bytes) else struct.pack("<q" if kind == INT else "<d", value)
    return bytes([name | (0x80 if end else 0), kind, len(data)]) + data


def rows(context, candidates):
    """The context is the first quarter of the bytes."""
    context, candidates = b"".join(context), b"".join(candidates)
    return b"f" + context + candidates + bytes([UNKNOWN, TEXT, 0]) * max(0, len(context) - len(candidates) // 3)


FILES = {
    "json": b'j{"a": "x", "n": 2}\n{"b": {"c": 1.5}}\n{"a": ["y", 1], "s": "p,q"}\n{}\n\n{"n": null}',
    "json_wrong": b'j{"a": "x"}\n{"n": "no number"}\n{"b": {"c": [[1]]}}',
    "json_cut": b'j{"a": "x"}\n{"n": 1',
    "json_context": b'j{"a"\n{"n": 1}\n{"n": 1e308, "s": ["1", "2"]}',
    "fields": rows([field(A, TEXT, b"x"), field(N, INT, 3)],
                   [field(B, DOUBLE, 1.5, True), field(N, FLOAT, 0.5), field(A, TEXT, b"y", True), field(S, TEXT, b"p,q")] * 3),
    "several": rows([field(A, TEXT, b"x"), field(A, TEXT, b"y")],
                    [field(B, INT, 1), field(A, TEXT, b"z"), field(B, INT, 2, True), field(A, TEXT, b"", True)] * 3),
    "wrong": rows([field(N, TEXT, b"x")], [field(N, INT, 1, True), field(A, WRONG, b"1"), field(LABEL, TEXT, b"?")] * 3),
    "not_finite": rows([field(A, INT, 1)], [field(N, DOUBLE, float("inf"), True), field(A, DOUBLE, float("nan"))] * 2),
}

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for name, data in FILES.items():
    (folder / name).write_bytes(data)
