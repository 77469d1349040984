#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates a small set of pictures: one folder for each of up to ten shapes, with random colours, sizes and positions.

    tools/make_images.py FOLDER [--classes=10] [--images=32] [--seed=1]

Writes FOLDER/SHAPE/N.jpg, or N.png where cjpeg (Debian package libjpeg-turbo-progs) is not installed; --images of each
shape. `millrace-records convert --format=images` converts them to TFRecords.
"""
import argparse
import pathlib
import random
import shutil
import struct
import subprocess
import zlib

# Whether a point belongs to the shape, seen from its centre; the shape reaches from -1 to 1.
SHAPES = {
    "bars": lambda x, y: abs(x) < 1 and abs(y) < 1 and int((x + 1) * 3) % 2 == 0,
    "checker": lambda x, y: abs(x) < 1 and abs(y) < 1 and (int((x + 1) * 2) + int((y + 1) * 2)) % 2 == 0,
    "cross": lambda x, y: (abs(x) < 0.3 and abs(y) < 1) or (abs(y) < 0.3 and abs(x) < 1),
    "diamond": lambda x, y: abs(x) + abs(y) < 1,
    "disc": lambda x, y: x * x + y * y < 1,
    "frame": lambda x, y: 0.6 < max(abs(x), abs(y)) < 1,
    "ring": lambda x, y: 0.45 < x * x + y * y < 1,
    "rungs": lambda x, y: abs(x) < 1 and abs(y) < 1 and int((y + 1) * 3) % 2 == 0,
    "square": lambda x, y: abs(x) < 0.9 and abs(y) < 0.9,
    "triangle": lambda x, y: -1 < y < 1 and abs(x) < (y + 1) / 2,
}


def picture(rng, inside):
    """Width, height and RGB bytes."""
    width, height = rng.randint(90, 150), rng.randint(90, 150)
    size = rng.uniform(0.28, 0.42) * min(width, height)
    cx, cy = (rng.uniform(size, side - size) for side in (width, height))
    dark = [rng.randint(0, 90) for _ in range(3)]
    bright = [rng.randint(150, 240) for _ in range(3)]
    front, back = (bright, dark) if rng.random() < 0.5 else (dark, bright)
    noise = [rng.randint(0, 15) for _ in range(997)]
    pixels, at = bytearray(), rng.randrange(997)
    for y in range(height):
        for x in range(width):
            at += 1
            colour = front if inside((x - cx) / size, (y - cy) / size) else back
            pixels.extend(c + noise[at % 997] for c in colour)
    return width, height, bytes(pixels)


def png(width, height, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[3 * width * y : 3 * width * (y + 1)] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def jpeg(width, height, pixels):
    ppm = b"P6 %d %d 255\n" % (width, height) + pixels
    return subprocess.run(["cjpeg", "-quality", "85"], input=ppm, stdout=subprocess.PIPE, check=True).stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--classes", type=int, default=10, choices=range(2, len(SHAPES) + 1))
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    ending, encode = (".jpg", jpeg) if shutil.which("cjpeg") else (".png", png)
    for shape in list(SHAPES)[: args.classes]:
        rng = random.Random(f"{args.seed} {shape}")
        folder = args.folder / shape
        folder.mkdir(parents=True, exist_ok=True)
        for n in range(args.images):
            (folder / f"{n:04}{ending}").write_bytes(encode(*picture(rng, SHAPES[shape])))
    print(f"make_images: {args.classes * args.images} images of {args.classes} shapes are in {args.folder}")


if __name__ == "__main__":
    main()
