#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks a running server on loopback: random bytes, huge sizes, wrong proofs, half-open connections.

Usage: attack.py PORT SEED. Bounded: 300 connections in a second or two; it stops when the server exits. Prints
counts; exit status 1 if fewer than fifty connections succeeded.
"""
import hmac
import pathlib
import random
import re
import socket
import struct
import sys

STRICT_CALL = 0x80010001
CONTRACT = pathlib.Path(__file__).parents[3] / "ps" / "parameter_server.thrift"
VERSION = int(re.search(r"kProtocolVersion = (\d+)", CONTRACT.read_text())[1])


def connect(port):
    s = socket.create_connection(("127.0.0.1", port), timeout=2)
    s.settimeout(0.002)
    return s


def masked_crc(data):
    """CRC-32C, masked as in TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def frame_header(length):
    packed = struct.pack("<Q", length)
    return packed + masked_crc(packed)


def frame(message):
    return frame_header(len(message)) + message + masked_crc(message)


def call(name, body, sequence=1):
    """A message of Thrift's strict binary protocol in an intact frame."""
    return frame(struct.pack(">II", STRICT_CALL, len(name)) + name + struct.pack(">I", sequence) + body)


def text(field, value):
    return struct.pack(">bhI", 11, field, len(value)) + value


def hello(nonce):
    return call(b"hello", text(1, nonce) + b"\0")


def join(proof):
    """join(1: JoinRequest{1: version, 2: proof, 3: worker, 4: name, 5: config, 6: rejoin})"""
    request = struct.pack(">bhi", 8, 1, VERSION) + text(2, proof) + struct.pack(">bhi", 8, 3, 0)
    request += text(4, b"nobody") + text(5, b"") + struct.pack(">bhb", 2, 6, 1) + b"\0"
    return call(b"join", struct.pack(">bh", 12, 1) + request + b"\0")


def proof_with(token, nonce):
    """Of a token that the attacker guesses, without the server's nonce."""
    return hmac.digest(token, b"join request\0" + nonce, "sha256")


def attacks(rng):
    noise = lambda size: rng.getrandbits(8 * size).to_bytes(size, "big")
    return [
        lambda: noise(rng.randint(1, 5000)),
        lambda: frame(noise(rng.randint(1, 500))),
        lambda: frame(struct.pack(">II", STRICT_CALL, 0x7FFFFFFF) + noise(20)),  # a name of 2 GB
        lambda: frame_header(0x7FFFFFFF) + noise(20),  # a message of 2 GB
        lambda: call(b"stop", noise(64))[:-1] + b"x",  # most likely a wrong CRC
        lambda: call(b"exchange", struct.pack(">bhbhI", 12, 1, 11, 8, 0x70000000)),  # a string of 1.8 GB
        lambda: call(b"exchange", noise(300)),
        lambda: call(b"stop", noise(64)),
        lambda: call(b"no_such_call", b"\0"),
        lambda: hello(noise(32)) + join(noise(32)),
        lambda: hello(noise(32)) + join(proof_with(b"", noise(32))),
        lambda: hello(noise(32)) + join(b""),
        lambda: join(noise(32)),  # without hello
        lambda: hello(noise(32)) * 50,
        lambda: hello(noise(5)),
        lambda: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        lambda: call(b"stop", b"\0")[: rng.randint(1, 30)],  # then nothing more
    ]


def main():
    port, rng = int(sys.argv[1]), random.Random(int(sys.argv[2]))
    kinds, held, made, replied = attacks(rng), [], 0, 0
    for _ in range(300):
        try:
            s = connect(port)
        except OSError:
            break
        made += 1
        held.append(s)
        try:
            s.sendall(rng.choice(kinds)())
            replied += bool(s.recv(4096))
        except OSError:  # closed, or no reply in time
            pass
        if len(held) > 40:  # half-open connections stay open for a while
            held.pop(rng.randrange(len(held))).close()
    print(f"{made} attacks, {replied} with an immediate reply")
    return 0 if made >= 50 else 1


sys.exit(main())
