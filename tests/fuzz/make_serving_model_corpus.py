#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus of fuzz_serving_model: models of each kind and layout, and damaged ones.

Usage: make_serving_model_corpus.py CORPUS_DIR
"""
import pathlib
import struct
import sys

LR = "model lr\nnum_features 8\nrule sgd\nsteps 3\nexamples 9\n"
FM = "model fm\nfactors 4\nfactor_init 0.01\nfactor_seed 1\nnum_features 8\nrule sgd\nsteps 3\nexamples 9\n"
DENSE = "table.layout dense\ntable.weights {}\nintercept -1.5\nweights 8\n"
HASH = "table.layout hash\ntable.weights f32\ntable.buckets 2\ntable.bucket_keys 5\ntable.bucket_bytes 64\nintercept 1\nweights 3\n"
SPEC = ('input.format json\ninput.features {"hash_bits": 3, "fields": [{"name": "a"}, {"name": "b"}, '
        '{"name": "a x b", "rule": "cross", "of": ["a", "b"]}]}\n')


def parts(fields, table):
    return b"\1" + struct.pack("<H", len(fields)) + fields.encode() + table


def bucket(*entries):
    keys = [key for key, _ in entries] + [2**64 - 1] * (5 - len(entries))
    weights = [weight for _, weight in entries] + [0.0] * (5 - len(entries))
    return struct.pack("<5Q5f", *keys, *weights) + bytes(4)


floats = struct.pack("<8f", *[i / 4 for i in range(8)])
halves = struct.pack("<8e", *[i / 4 for i in range(8)])
table = bucket((0, 1.0), (7, -1.0)) + bucket((1, 0.5))
FILES = {
    "dense": parts(LR + DENSE.format("f32"), floats),
    "dense_f16": parts(LR + DENSE.format("f16"), halves),
    "dense_bf16": parts(LR + DENSE.format("bf16"), halves),
    "hash": parts(LR + HASH, table),
    "hash_any": parts(LR.replace("features 8", "features 0") + HASH, table),
    "hash_full": parts(LR + HASH, b"\3" * 128),
    "fm": parts(FM + DENSE.format("f32"), floats * 5),
    "centers": parts(LR + DENSE.format("f32") + "option.centers 1:2.5 7:-1\n", floats),
    "wrong_center": parts(LR + DENSE.format("f32") + "option.centers 1:2.5 9:-1\n", floats),
    "spec": parts(LR + DENSE.format("f32") + SPEC, floats),
    "wrong_spec": parts(LR.replace("8", "9") + DENSE.format("f32") + SPEC, floats + b"\0" * 4),
    "wrong_size": parts(LR + DENSE.format("f32"), floats[:-1]),
    "wrong_buckets": parts(LR + HASH.replace("buckets 2", "buckets 18446744073709551615"), table),
    "nan": parts(LR + DENSE.format("f32"), struct.pack("<8f", *[float("nan")] * 8)),
    "no_fields": parts("", floats),
    "raw": b"\0MILLSERV" + bytes(100) + b"MILLSERV",
    "empty": b"\0",
}

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for name, data in FILES.items():
    (folder / name).write_bytes(data)
