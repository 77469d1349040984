#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Test logloss of millrace-lr with its default flags, beside the converged optimum of scikit-learn.

    defaults.py [--bin=build/bin] [--data=../shared/data] [--work=FOLDER] [--only=NAME,...] [--flags='...']

The sets are those of --data that fit (left out with a message when the folder is absent), and generated ones of which
the generator is a linear model. Each row of the table: rows, features, the logloss of the base rate, of LogisticRegression
(converged: tiny L2, columns standardised or, for more than 400 columns, divided by their largest value), of one pass and
of ten passes, both relative to the optimum, and their calibrations (predicted through observed positives).

Small data has no converged optimum worth reaching (it overfits, or it separates the classes): the column takes the best
of three strengths of L2 on the test rows there, and * marks it.
"""
import argparse
import csv
import json
import math
import pathlib
import shlex
import subprocess
import sys
import tempfile
import zlib

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

HASH = 1 << 24


def key(text):
    return zlib.crc32(text.encode()) % HASH


def sigmoid(m):
    return 1 / (1 + np.exp(-m))


def draw(rng, margins):
    return (rng.random(len(margins)) < sigmoid(margins)).astype(int)


def read_libsvm(path):
    rows, labels = [], []
    for line in open(path):
        tokens = line.split("#")[0].split()
        if tokens:
            labels.append(int(float(tokens[0]) > 0))
            rows.append([(int(k), float(v)) for k, v in (t.split(":") for t in tokens[1:])])
    return rows, labels


def dense(matrix):
    return [[(j + 1, x) for j, x in enumerate(row) if x != 0] for row in matrix.tolist()]


def split(rows, labels):
    """Three quarters for training."""
    order = np.random.default_rng(1).permutation(len(rows))
    cut = len(rows) * 3 // 4
    return [([rows[i] for i in part], [labels[i] for i in part]) for part in (order[:cut], order[cut:])]


# Sets of --data: name -> function of the folder that returns (train, test), each (rows, labels).

def libsvm_pair(train, test):
    return lambda data: (read_libsvm(data / train), read_libsvm(data / test))


def libsvm_split(name):
    return lambda data: split(*read_libsvm(data / name))


def adult(data):
    parts = []
    for part in ("train", "test"):
        rows, labels = [], []
        for record in csv.DictReader(open(data / f"adult/adult_{part}.csv")):
            labels.append(int(">50" in record.pop("income")))
            row = []
            for name, text in record.items():
                try:
                    row.append((key(name), float(text)))
                except ValueError:
                    row.append((key(f"{name}={text}"), 1.0))
            rows.append([(k, v) for k, v in row if v != 0])
        parts.append((rows, labels))
    return parts


def vw(name):
    def read(data):
        rows, labels = [], []
        for line in open(data / name):
            head, _, text = line.partition("|")
            if not head.split():
                continue
            row = {}
            for token in text.split()[0 if text[:1] == " " else 1:]:
                word, _, value = token.partition(":")
                row[key(word)] = row.get(key(word), 0) + (float(value) if value else 1.0)
            labels.append(int(float(head.split()[0]) > 0))
            rows.append(list(row.items()))
        return split(rows, labels)
    return read


def criteo(data, number):
    rows, labels = [], []
    for line in open(data / "criteo/day_11_first_3000.tsv"):
        cells = line.rstrip("\n").split("\t")
        row = [(i, number(int(cells[i]))) for i in range(1, 14) if cells[i]]
        row += [(100 + key(f"{i}={cells[i]}"), 1.0) for i in range(14, 40) if cells[i]]
        labels.append(int(cells[0]))
        rows.append([(k, v) for k, v in row if v != 0])
    return split(rows, labels)


SHARED = {
    "a9a": libsvm_pair("libsvm/a9a", "libsvm/a9a.t"),
    "agaricus": libsvm_pair("libsvm/agaricus.txt.train", "libsvm/agaricus.txt.test"),
    "heart_scale": libsvm_split("libsvm/heart_scale"),
    "rcv1_100rows": libsvm_split("libsvm/rcv1_100rows_difacto"),
    "spark_sample": libsvm_split("libsvm/spark_sample_libsvm_data.txt"),
    "adult, raw numbers": adult,
    "vw rcv1_small": vw("vw/rcv1_small.dat"),
    "vw 0001": vw("vw/0001.dat"),
    "criteo, log numbers": lambda data: criteo(data, lambda n: math.log1p(max(n, -0.5))),
    "criteo, raw numbers": lambda data: criteo(data, float),
}


# Generated sets: name -> function of a random generator that returns (rows, labels).

def covtype_like(rng):
    n = 40000
    mean = np.array([2959, 155, 14, 269, 46, 2350, 212, 223, 142, 1980.0])
    deviation = np.array([280, 112, 7.5, 212, 58, 1559, 27, 20, 38, 1324.0])
    numbers = np.maximum(mean + deviation * rng.standard_normal((n, 10)), 0).round()
    one_hot = np.zeros((n, 44))
    one_hot[np.arange(n), rng.choice(4, n, p=[0.45, 0.05, 0.43, 0.07])] = 1
    one_hot[np.arange(n), 4 + rng.choice(40, n, p=rng.dirichlet(np.full(40, 0.5)))] = 1
    margins = (numbers - mean) / deviation @ (rng.standard_normal(10) * 0.5) + one_hot @ (rng.standard_normal(44) * 0.7)
    return dense(np.hstack([numbers, one_hot])), draw(rng, margins)


def unscaled(offset):
    def make(rng):
        z = rng.standard_normal((20000, 20))
        labels = draw(rng, z @ (rng.standard_normal(20) * 0.6) - 0.5)
        return dense((z + offset) * 10.0 ** np.linspace(-4, 6, 20)), labels
    return make


def log_normal(rng):
    x = np.exp(1.5 * rng.standard_normal((20000, 15)))
    margins = x / x.std(0) @ (rng.standard_normal(15) * 0.5)
    return dense(x * 10.0 ** rng.integers(-3, 4, 15)), draw(rng, margins - np.median(margins))


def uniform(rng):
    x = rng.random((20000, 60))
    labels = draw(rng, (x - 0.5) @ (rng.standard_normal(60) * 0.8))
    return dense(x * 10.0 ** rng.integers(-2, 3, 60)), labels


def pixels(rng):
    x = (rng.random((20000, 64)) < 0.2) * rng.integers(1, 256, (20000, 64))
    return dense(x.astype(float)), draw(rng, (x / 255 - 0.1) @ (rng.standard_normal(64) * 2))


def rare(rng):
    n, popularity = 60000, 1 / np.arange(1, 501) ** 1.1
    weights = rng.standard_normal(3000) * 0.5
    keys = np.stack([f * 500 + rng.choice(500, n, p=popularity / popularity.sum()) for f in range(6)], 1)
    count = rng.poisson(5, n).astype(float)
    rows = [[(k + 1, 1.0) for k in ks] + ([(4000, c)] if c else []) for ks, c in zip(keys.tolist(), count.tolist())]
    return rows, draw(rng, weights[keys].sum(1) + 0.2 * (count - 5) - 5)


def text(n):
    def make(rng):
        words = 50000
        p = 1 / (np.arange(1, words + 1) + 20) ** 1.05
        p /= p.sum()
        idf, weights = np.log(1 / (1 - (1 - p) ** 80)), rng.standard_normal(words)
        rows, margins = [], []
        for drawn in rng.choice(words, size=(n, 80), p=p):
            k, count = np.unique(drawn, return_counts=True)
            v = count * idf[k]
            v /= np.linalg.norm(v)
            rows.append(list(zip((k + 1).tolist(), v.tolist())))
            margins.append(v @ weights[k])
        return rows, draw(rng, 3 * np.array(margins) / np.std(margins))
    return make


def one_hot(rng):
    weights = rng.standard_normal(2000)
    keys = np.arange(10) * 200 + np.minimum(199, rng.exponential(30, (27000, 10)).astype(int))
    return [[(k + 1, 1.0) for k in ks] for ks in keys.tolist()], draw(rng, weights[keys].sum(1) * 0.6 - 1)


def tiny(rng):
    z = rng.standard_normal((133, 5))
    return dense(z * [1, 100, 0.01, 5, 1000] + [0, 300, 0, 5, 0]), draw(rng, z @ np.array([1, -1, 0.5, 0, 0.8]))


def one_class(rng):
    return dense(rng.standard_normal((2000, 5)) * [1, 100, 0.01, 5, 1000]), np.ones(2000, int)


GENERATED = {
    "covtype-like": covtype_like,
    "units 1e-4 .. 1e6": unscaled(0),
    "the same, mean 3 deviations": unscaled(3),
    "the same, mean 10 deviations": unscaled(10),
    "log-normal": log_normal,
    "uniform": uniform,
    "pixels": pixels,
    "1 % positives": rare,
    "text, 2,000 rows": text(2700),
    "text, 20,000 rows": text(27000),
    "one-hot": one_hot,
    "tiny": tiny,
    "one class": one_class,
}


def matrix(rows, ids, grow):
    begin, columns, values = [0], [], []
    for row in rows:
        for k, v in row:
            if grow:
                ids.setdefault(k, len(ids))
            if k in ids:
                columns.append(ids[k])
                values.append(v)
        begin.append(len(columns))
    return begin, columns, values


def optimum(train, test):
    """(test logloss, whether it is the best of several regularizations, features)."""
    ids = {}
    parts = [matrix(train[0], ids, True), matrix(test[0], ids, False)]
    x, t = (sparse.csr_matrix((v, c, b), shape=(len(b) - 1, len(ids))) for b, c, v in parts)
    labels = np.array(train[1])
    if labels.min() == labels.max():
        return None, False, len(ids)
    if len(ids) <= 400:
        x, t = x.toarray(), t.toarray()
        mean, deviation = x.mean(0), x.std(0)
        deviation[deviation == 0] = 1
        x, t = (x - mean) / deviation, (t - mean) / deviation
    else:
        largest = np.asarray(abs(x).max(0).todense()).ravel()
        largest[largest == 0] = 1
        x, t = x @ sparse.diags(1 / largest), t @ sparse.diags(1 / largest)
    losses = []
    for strength in (1e6, 1, 0.01):
        model = LogisticRegression(C=strength, max_iter=2000 if len(ids) < 5000 else 300).fit(x, labels)
        losses.append(log_loss(test[1], model.predict_proba(t)[:, 1], labels=[0, 1]))
    overfits = min(losses) < 0.98 * losses[0]
    return min(losses) if overfits else losses[0], overfits, len(ids)


def base_rate(train, test):
    p = min(max(np.mean(train[1]), 1e-6), 1 - 1e-6)
    q = np.mean(test[1])
    return -(q * math.log(p) + (1 - q) * math.log(1 - p))


def write(path, part):
    with open(path, "w") as out:
        for row, label in zip(*part):
            out.write(str(int(label)) + "".join(f" {k}:{v:.9g}" for k, v in sorted(row)) + "\n")


def run(args, folder, epochs):
    run_dir = folder / f"run-{epochs}"
    command = [args.bin / "millrace-lr", f"--train={folder}/train.libsvm", f"--test={folder}/test.libsvm",
               f"--epochs={epochs}", f"--run_dir={run_dir}", "--overwrite", *shlex.split(args.flags)]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"defaults.py: exit status {result.returncode} of {command}\n{result.stdout}{result.stderr}")
    record = json.load(open(run_dir / "run.json"))
    return record["metrics"], record


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default="build/bin")
    parser.add_argument("--data", type=pathlib.Path, default="../shared/data")
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--flags", default="", help="more flags of millrace-lr")
    args = parser.parse_args()
    if not args.data.is_dir():
        print(f"defaults.py: {args.data} is absent: only generated sets", file=sys.stderr)
    sets = {}
    if args.data.is_dir():
        sets.update({name: lambda make=make: make(args.data) for name, make in SHARED.items()})
    for number, (name, make) in enumerate(GENERATED.items()):
        sets[name] = lambda make=make, number=number: split(*make(np.random.default_rng(number)))
    if args.only:
        sets = {name: sets[name] for name in args.only.split(",")}
    print("| set | rows, features | base rate | optimum | rate | one pass | ten passes | calibration |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for name, make in sets.items():
            folder = (args.work or pathlib.Path(temporary)) / name.replace(" ", "_").replace(",", "")
            folder.mkdir(parents=True, exist_ok=True)
            train, test = make()
            write(folder / "train.libsvm", train)
            write(folder / "test.libsvm", test)
            best, overfits, features = optimum(train, test)
            (one, record), (ten, _) = run(args, folder, 1), run(args, folder, 10)

            def loss(metrics):
                ratio = f" ({metrics['logloss'] / best:.2f})" if best and best > 0.01 else ""
                return f"{metrics['logloss']:.4f}{ratio}"

            def calibration(metrics):
                value = metrics["calibration"]
                return "" if value is None else f"{value:.2f}"

            print(f"| {name} | {len(train[1]):,}, {features:,} | {base_rate(train, test):.4f} | "
                  + (f"{best:.4f}{'*' if overfits else ''}" if best else "0")
                  + f" | {record.get('learning_rate', {}).get('rate', '')} | {loss(one)} | {loss(ten)} | "
                  f"{calibration(one)}, {calibration(ten)} |", flush=True)


if __name__ == "__main__":
    main()
