#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the message fuzzer. Usage: make_message_corpus.py FOLDER.

The first byte chooses the decoder: 0 service, 1 keys, 2 numbers, 3 entries, 4 configuration, 5 a dense block, 6 a
reply, 7 service and 8 replies, with messages that get their frames from the decoder, 9 entries with factors, 10 an
exchange with a server of a factorization machine: pull_of, 1 byte for the size of the keys, the keys and the gradient.
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


def frame_header(size):
    length = struct.pack("<Q", size)
    return length + masked(length)


def frame(message):
    return frame_header(len(message)) + message + masked(message)


def message(name, body):
    return struct.pack(">II", 0x80010001, len(name)) + name + struct.pack(">I", 1) + body


def hello():
    return message(b"hello", text(1, b"n" * 32) + b"\0")


def join(proof):
    request = struct.pack(">bhi", 8, 1, 6) + text(2, proof) + struct.pack(">bhi", 8, 3, 0) + text(4, b"n")
    return message(b"join", struct.pack(">bh", 12, 1) + request + text(5, b"mode sync\n") + b"\0\0")


def exchange():
    request = struct.pack(">bhi", 8, 1, 0) + struct.pack(">bhq", 10, 2, 1) + struct.pack(">bhq", 10, 3, 1)
    request += struct.pack(">bhb", 2, 5, 1) + text(7, b"\x02\x05\x01") + text(8, b"\0" + struct.pack("<2f", 1, 2))
    return message(b"exchange", struct.pack(">bh", 12, 1) + request + b"\0\0")


def exchange_of_factors(pull_of=0):
    """The features 2 and 7 and the intercept: three gradients, then two blocks of four."""
    keys = b"\x05\x02\x05"
    return bytes([pull_of, len(keys)]) + keys + b"\0" + struct.pack("<11f", *range(11))


def reply(name, body):
    return struct.pack(">II", 0x80010002, len(name)) + name + struct.pack(">I", 0) + body


def exchange_reply():
    success = struct.pack(">bhi", 8, 1, 0) + text(2, b"\0" + struct.pack("<2f", 1, 2)) + struct.pack(">bhq", 10, 3, 9)
    success += struct.pack(">bhd", 4, 5, 0.5) + text(10, b"worker 1") + struct.pack(">bhb", 2, 11, 1) + b"\0"
    return reply(b"exchange", struct.pack(">bh", 12, 0) + success + b"\0")


def join_reply():
    success = struct.pack(">bhq", 10, 1, 1) + struct.pack(">bhbIq", 15, 3, 10, 1, 7) + text(6, b"p" * 32)
    return reply(b"join", struct.pack(">bh", 12, 0) + success + b"\0\0")


def refusal(name):
    return reply(name, struct.pack(">bh", 12, 1) + text(1, b"no") + b"\0\0")


def sized(*messages):
    """For the decoders that make frames themselves."""
    return b"".join(struct.pack("<H", len(m)) + m for m in messages)


config = (
    "num_workers 3\nnum_shards 1\nmode sync\nstaleness 3\nreplicas_to_aggregate 0\nnum_features 100\nintercept 1\nmodel lr\n"
    "rule sgd\noption.rate 0.5\noption.decay constant\noption.l1 0\noption.l2 0\noption.ftrl_beta 1\n"
    "option.adagrad_epsilon 1e-06\noption.adagrad_initial 0\noption.adam_beta1 0.9\noption.adam_beta2 0.999\noption.adam_epsilon 1e-08\n"
    "option.normalize 1\noption.centers 2:0.5 7:-1000\n"
    "zstd 0\nbf16 0\ndata x\n"
)
fm_config = config.replace("model lr\n", "model fm\nfactors 8\nfactor_init 0.01\nfactor_seed 1\n")
ffm_config = config.replace("model lr\n", "model ffm\nfactors 4\nfactor_fields 39\nfactor_init 0.01\nfactor_seed 1\n")
seeds = {
    "join": b"\0" + frame(join(b"guess")),
    "handshake": b"\0" + frame(hello()) + frame(join(b"p" * 32)),
    "exchange": b"\0" + frame(exchange()),
    "two_calls": b"\0" + frame(join(b"x")) + frame(exchange()),
    "huge_claim": b"\0" + frame(struct.pack(">II", 0x80010001, 0x6B49D200) + b"joi"),
    "huge_frame": b"\0" + frame_header(0x6B49D200) + b"joi",
    "empty_frame": b"\0" + frame(b""),
    "not_framed": b"\0" + join(b"x"),
    "wrong_crc": b"\0" + frame(hello())[:-1] + b"\0",
    "reply": b"\6" + frame(exchange_reply()),
    "refusal": b"\6" + frame(refusal(b"exchange")),
    "sized_handshake": b"\7" + sized(hello(), join(b"p" * 32), exchange()),
    "sized_hello_twice": b"\7" + sized(hello(), hello()),
    "sized_claim": b"\7" + sized(struct.pack(">II", 0x80010001, 0x6B49D200) + b"joi"),
    "sized_replies": b"\x08" + sized(reply(b"hello", text(0, b"s" * 32) + b"\0"), join_reply()),
    "sized_refusal": b"\x08" + sized(refusal(b"hello")),
    "sized_reply": b"\x08" + sized(exchange_reply()),
    "keys": b"\1\x08\x05\x01\x80\x02\x07",
    "keys_intercept": b"\1\x09\x05\x01\x80\x02\x07",
    "keys_wide": b"\1\x04\xff\xff\x3f\x01",
    "keys_huge_count": b"\1\xff\xff\xff\xff\x0f\x01",
    "floats": b"\2\0" + struct.pack("<3f", 1, -2, 0.5),
    "halves": b"\2\1" + struct.pack("<3H", 0x3F80, 0xC000, 0x3F00),
    "packed": b"\2\2" + bytes.fromhex("28b52ffd200c6100000000000000803f000000c00000003f"),
    "entries": b"\3\x05" + struct.pack("<f", 1) + b"\x80\x01" + struct.pack("<f", -1),
    "entries_factors": b"\x09\x05" + struct.pack("<fB", 1, 0) + b"\x80\x01" + struct.pack("<fB4f", -1, 1, 1, 2, 3, 4),
    "config": b"\4" + config.encode(),
    "config_fm": b"\4" + fm_config.encode(),
    "config_ffm": b"\4" + ffm_config.encode(),
    "factors": b"\x0a" + exchange_of_factors(),
    "factors_pulled": b"\x0a" + exchange_of_factors(pull_of=2),
    "factors_cut": b"\x0a" + exchange_of_factors()[:-9],
    "dense": b"\5\0" + struct.pack("<20f", *range(20)),
    "dense_halves": b"\5\1" + struct.pack("<20H", *range(0x3F80, 0x3F94)),
    "dense_packed": b"\5\2" + bytes.fromhex("28b52ffd004845000010000001008b022c"),
    "dense_packed_too_large": b"\5\2" + bytes.fromhex("28b52ffd004855000010000001009b8639c002"),
}
for name, data in seeds.items():
    (folder / name).write_bytes(data)
