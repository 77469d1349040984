#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One default pass of Vowpal Wabbit and of millrace-lr on the same VW text: docs/migration.md.

Usage: compare_vw.py VW BIN_DIR SHARED_DATA OUT_DIR [NAME...]

Writes NAME.train.vw and NAME.test.vw into OUT_DIR and prints the test logloss of both programs and the best
wall time of three trainings.
"""
import csv
import math
import pathlib
import random
import subprocess
import sys
import time


def from_libsvm(path):
    rows = []
    for line in open(path, encoding="ascii"):
        words = line.split("#")[0].split()
        if words:
            features = ["x" + (w[:-2] if w.endswith(":1") else w) for w in words[1:]]
            rows.append(("1" if float(words[0]) > 0 else "-1") + " |f " + " ".join(features) + "\n")
    return rows


def from_criteo(path):
    rows = []
    for line in open(path, encoding="ascii"):
        cells = line.rstrip("\n").split("\t")
        features = [f"i{i}={cells[1 + i]}" for i in range(13) if cells[1 + i]]
        features += [f"c{i}={cells[14 + i]}" for i in range(26) if cells[14 + i]]
        rows.append(("1" if cells[0] == "1" else "-1") + " |f " + " ".join(features) + "\n")
    return rows


def from_adult(path):
    rows = []
    for row in csv.DictReader(open(path, encoding="ascii")):
        label = "1" if row.pop("income").strip().startswith(">") else "-1"
        features = []
        for name, cell in row.items():
            cell = cell.strip().replace(" ", "_").replace(":", "_").replace("|", "_")
            if cell:
                features.append(f"{name}:{cell}" if is_number(cell) else f"{name}={cell}")
        rows.append(f"{label} |f {' '.join(features)}\n")
    return rows


def is_number(text):
    try:
        float(text)
        return True
    except ValueError:
        return False


def split(rows):
    """Three quarters to train on, shuffled."""
    random.Random(1).shuffle(rows)
    train = int(len(rows) * 0.75)
    return rows[:train], rows[train:]


UNITS = [10.0 ** (i - 6) for i in range(13)]
OFFSETS = [3000, 20000, 1.7e9, 50, 0, 101325, 273, 7]
SPREADS = [10, 3000, 1e6, 5, 1, 800, 12, 2]
WORDS = 20000
draw = random.Random(9)
word_weights = [draw.gauss(0, 0.7) for _ in range(WORDS)]
click_weights = {}


def scales(r):
    x = [r.gauss(0, 1) for _ in UNITS]
    margin = sum(((i * 7) % 5 - 2) * 0.5 * a for i, a in enumerate(x))
    return margin, " ".join(f"n{i}:{a * u:.6g}" for i, (a, u) in enumerate(zip(x, UNITS)))


def offsets(r):
    x = [r.gauss(0, 1) for _ in OFFSETS]
    margin = sum(((i % 3) - 1) * 0.8 * a for i, a in enumerate(x))
    return margin, " ".join(f"n{i}:{o + a * s:.10g}" for i, (a, o, s) in enumerate(zip(x, OFFSETS, SPREADS)))


def some_words(r):
    return sorted({int(WORDS * r.random() ** 3) for _ in range(40)})


def text(r):
    words = some_words(r)
    return sum(word_weights[i] for i in words) / 2, " ".join(f"w{i}" for i in words)


def tfidf(r):
    words = some_words(r)
    x = [0.5 + r.random() * 3 for _ in words]
    length = math.sqrt(sum(a * a for a in x))
    margin = 2.5 * sum(word_weights[i] * a for i, a in zip(words, x)) / length
    return margin, " ".join(f"w{i}:{a / length:.4f}" for i, a in zip(words, x))


def click(r):
    values = [(f, int(10 ** ((f % 4) + 1.5) * r.random() ** 4)) for f in range(20)]
    margin = -3.2 + sum(click_weights.setdefault(v, draw.gauss(0, 0.35)) for v in values)
    return margin, " ".join(f"f{f}={i}" for f, i in values)


def generated(make, rows, seed):
    r = random.Random(seed)
    parts = []
    for count in (rows, rows // 4):
        part = []
        for _ in range(count):
            margin, features = make(r)
            label = "1" if r.random() < 1 / (1 + math.exp(-margin)) else "-1"
            part.append(f"{label} |f {features}\n")
        parts.append(part)
    return parts


def data_sets(data):
    return {
        "a9a": lambda: (from_libsvm(data / "libsvm/a9a"), from_libsvm(data / "libsvm/a9a.t")),
        "agaricus": lambda: (from_libsvm(data / "libsvm/agaricus.txt.train"),
                             from_libsvm(data / "libsvm/agaricus.txt.test")),
        "heart": lambda: split(from_libsvm(data / "libsvm/heart_scale")),
        "rcv1": lambda: split([s for s in open(data / "vw/rcv1_small.dat", encoding="ascii") if s.strip()]),
        "criteo": lambda: split(from_criteo(data / "criteo/day_11_first_3000.tsv")),
        "adult": lambda: (from_adult(data / "adult/adult_train.csv"), from_adult(data / "adult/adult_test.csv")),
        "scales": lambda: generated(scales, 100000, 1),
        "offsets": lambda: generated(offsets, 100000, 2),
        "text": lambda: generated(text, 100000, 3),
        "tfidf": lambda: generated(tfidf, 100000, 4),
        "click": lambda: generated(click, 200000, 5),
    }


def seconds(command):
    start = time.monotonic()
    subprocess.run(command, shell=True, check=True, capture_output=True)
    return time.monotonic() - start


def logloss(rows, scores):
    total = 0
    for row, score in zip(rows, open(scores, encoding="ascii"), strict=True):
        p = min(max(float(score.split()[0]), 1e-15), 1 - 1e-15)
        total -= math.log(p if float(row.split()[0]) > 0 else 1 - p)
    return total / len(rows)


def compare(name, parts, vw, bin_dir, out):
    train, test, run = out / f"{name}.train.vw", out / f"{name}.test.vw", out / f"{name}.run"
    train.write_text("".join(parts[0]), encoding="ascii")
    test.write_text("".join(parts[1]), encoding="ascii")
    times = [[], []]
    for _ in range(3):
        times[0].append(seconds(f"{vw} -d {train} -b 18 --loss_function logistic -f {out}/model.vw --quiet"))
        seconds(f"rm -rf {run}")
        times[1].append(seconds(f"{bin_dir}/millrace-lr --train={train} --hash_bits=18 --run_dir={run} --sample_ms=0"))
    seconds(f"{vw} -d {test} -t -i {out}/model.vw --link logistic -p {out}/vw.scores --quiet")
    seconds(f"{bin_dir}/millrace-predict --model={run} {test} > {out}/millrace.scores")
    share = sum(float(row.split()[0]) > 0 for row in parts[1]) / len(parts[1])
    base = -share * math.log(share) - (1 - share) * math.log(1 - share)
    losses = [logloss(parts[1], out / f"{program}.scores") for program in ("vw", "millrace")]
    print(f"{name:10} rows {len(parts[0]):7} base {base:.4f}  vw {losses[0]:.4f} {min(times[0]):.2f} s  "
          f"millrace {losses[1]:.4f} {min(times[1]):.2f} s", flush=True)


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    vw, bin_dir, data, out = sys.argv[1], *map(pathlib.Path, sys.argv[2:5])
    out.mkdir(parents=True, exist_ok=True)
    sets = data_sets(data)
    for name in sys.argv[5:] or sets:
        compare(name, sets[name](), vw, bin_dir, out)


if __name__ == "__main__":
    main()
