#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the message fuzzer. Usage: make_message_corpus.py FOLDER.

The first byte chooses the decoder: 0 service, 1 keys, 2 numbers, 3 entries, 4 configuration, 5 a dense block, 6 an answer.
"""
import pathlib
import struct
import sys

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)


def text(field, value):
    return struct.pack(">bhI", 11, field, len(value)) + value


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(message):
    length = struct.pack("<Q", len(message))
    return length + masked(length) + message + masked(message)


def call(name, body):
    return frame(struct.pack(">II", 0x80010001, len(name)) + name + struct.pack(">I", 1) + body)


def join(token):
    request = struct.pack(">bhi", 8, 1, 1) + text(2, token) + struct.pack(">bhi", 8, 3, 0) + text(4, b"n")
    return call(b"join", struct.pack(">bh", 12, 1) + request + text(5, b"mode sync\n") + b"\0\0")


def exchange():
    request = struct.pack(">bhi", 8, 1, 0) + struct.pack(">bhq", 10, 2, 1) + struct.pack(">bhq", 10, 3, 1)
    request += struct.pack(">bhb", 2, 5, 1) + text(7, b"\x02\x05\x01") + text(8, b"\0" + struct.pack("<2f", 1, 2))
    return call(b"exchange", struct.pack(">bh", 12, 1) + request + b"\0\0")


def reply():
    success = struct.pack(">bhi", 8, 1, 0) + text(2, b"\0" + struct.pack("<2f", 1, 2)) + struct.pack(">bhq", 10, 3, 9)
    success += struct.pack(">bhd", 4, 5, 0.5) + text(10, b"worker 1") + struct.pack(">bhb", 2, 11, 1) + b"\0"
    begin = struct.pack(">II", 0x80010002, 8) + b"exchange" + struct.pack(">I", 0)
    return frame(begin + struct.pack(">bh", 12, 0) + success + b"\0")


def refusal():
    begin = struct.pack(">II", 0x80010002, 8) + b"exchange" + struct.pack(">I", 0)
    return frame(begin + struct.pack(">bh", 12, 1) + text(1, b"no") + b"\0\0")


config = (
    "num_workers 3\nnum_shards 1\nmode sync\nstaleness 3\nreplicas_to_aggregate 0\nnum_features 100\nmodel sparse\n"
    "rule sgd\noption.rate 0.5\noption.decay constant\noption.l1 0\noption.l2 0\noption.ftrl_beta 1\n"
    "option.adagrad_epsilon 1e-06\noption.adam_beta1 0.9\noption.adam_beta2 0.999\noption.adam_epsilon 1e-08\n"
    "zstd 0\nbf16 0\ndata x\n"
)
seeds = {
    "join": b"\0" + join(b"guess"),
    "join_token": b"\0" + join(b"token"),
    "exchange": b"\0" + exchange(),
    "two_calls": b"\0" + join(b"x") + exchange(),
    "huge_claim": b"\0" + frame(struct.pack(">II", 0x80010001, 0x6B49D200) + b"joi"),
    "huge_frame": b"\0" + (lambda length: length + masked(length) + b"joi")(struct.pack("<Q", 0x6B49D200)),
    "empty_frame": b"\0" + frame(b""),
    "not_framed": b"\0" + call(b"join", b"\0")[12:],
    "wrong_crc": b"\0" + call(b"join", b"\0")[:-1] + b"\0",
    "reply": b"\6" + reply(),
    "refusal": b"\6" + refusal(),
    "keys": b"\1\x04\x05\x01\x80\x02\x07",
    "keys_wide": b"\1\x02\xff\xff\x3f\x01",
    "keys_huge_count": b"\1\xff\xff\xff\xff\x0f\x01",
    "floats": b"\2\0" + struct.pack("<3f", 1, -2, 0.5),
    "halves": b"\2\1" + struct.pack("<3H", 0x3F80, 0xC000, 0x3F00),
    "packed": b"\2\2" + bytes.fromhex("28b52ffd200c6100000000000000803f000000c00000003f"),
    "entries": b"\3\x05" + struct.pack("<f", 1) + b"\x80\x01" + struct.pack("<f", -1),
    "config": b"\4" + config.encode(),
    "dense": b"\5\0" + struct.pack("<20f", *range(20)),
    "dense_halves": b"\5\1" + struct.pack("<20H", *range(0x3F80, 0x3F94)),
    "dense_packed": b"\5\2" + bytes.fromhex("28b52ffd004845000010000001008b022c"),
    "dense_packed_too_large": b"\5\2" + bytes.fromhex("28b52ffd004855000010000001009b8639c002"),
}
for name, data in seeds.items():
    (folder / name).write_bytes(data)
