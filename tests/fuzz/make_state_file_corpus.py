#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpus of the state file fuzzer: python3 make_state_file_corpus.py FOLDER (tests/fuzz/corpus).

The frames are zstd's raw blocks, so that no compressor is needed.
"""
import os
import struct
import sys

from make_record_corpus import masked, varint, write


def checked(data):
    return data + masked(data)


def header(fields, floats=1, version=1):
    return checked(b"MILLRACE" + struct.pack("<III", version, floats, len(fields)) + fields)


def frame(data):
    """A zstd frame of one uncompressed block: content size in one byte, no checksum."""
    assert len(data) < 256
    return b"\x28\xb5\x2f\xfd\x20" + bytes([len(data)]) + struct.pack("<I", len(data) << 3 | 1)[:3] + data


def block(entries, raw=None, count=None):
    data, last = b"", 0
    for key, *floats in entries:
        data += varint(key - last) + struct.pack("<%df" % len(floats), *floats)
        last = key
    packed = frame(data)
    numbers = (len(entries) if count is None else count, len(data) if raw is None else raw, len(packed))
    return checked(struct.pack("<III", *numbers) + packed)


def end(total):
    return checked(bytes(12) + struct.pack("<Q", total))


MODEL = b"kind model\nnum_features 100\nrule sgd\nsteps 3\nexamples 300\n"
CHECKPOINT = MODEL.replace(b"kind model", b"kind checkpoint") + b"training.steps 3\ntraining.best nan\n"


def main():
    folder = os.path.join(sys.argv[1], "state_file")
    two = block([(1, 0.5), (7, -1.0)]) + block([(99, 2.0)])
    write(folder, "model", header(MODEL) + two + end(3))
    write(folder, "empty_model", header(MODEL) + end(0))
    write(folder, "checkpoint", header(CHECKPOINT, 3) + block([(5, 1.0, 2.0, 3.0), (6, 4.0, 5.0, 6.0)]) + end(2))
    write(folder, "long_keys", header(MODEL) + block([(1 << 40, 1.0), ((1 << 64) - 1, 2.0)]) + end(2))
    write(folder, "overflowing_keys", header(MODEL) + block([((1 << 64) - 1, 1.0), (1 << 64, 2.0)]) + end(2))
    write(folder, "descending", header(MODEL) + block([(9, 1.0)]) + block([(8, 1.0)]) + end(2))
    write(folder, "wrong_total", header(MODEL) + two + end(4))
    write(folder, "behind_the_end", header(MODEL) + end(0) + b"x")
    write(folder, "cut", (header(MODEL) + two + end(3))[:-9])
    write(folder, "flipped", (header(MODEL) + two + end(3)).replace(b"rule", b"role"))
    write(folder, "version", header(MODEL, version=2) + end(0))
    write(folder, "many_floats", header(MODEL, 64) + end(0))
    write(folder, "too_many_floats", header(MODEL, 65) + end(0))
    write(folder, "field_twice", header(b"kind a\nkind b\n") + end(0))
    write(folder, "no_fields", header(b"") + end(0))
    write(folder, "huge_claim", header(MODEL) + block([(1, 1.0)], raw=1 << 31) + end(1))
    write(folder, "many_entries", header(MODEL) + block([(1, 1.0)], count=1 << 30) + end(1))
    write(folder, "empty", b"")


if __name__ == "__main__":
    main()
