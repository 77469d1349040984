#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows per second of partial_fit on CSR in memory, beside SGDClassifier of scikit-learn, in turns.

Usage: python_fit.py BUILD_DIR [--rows=N] [--rounds=N] [--num_features=N]

Rows are those of `millrace-records synth`: 39 one-hot features with a skewed popularity. Each round trains a new model
of each kind in one pass over the same matrix; the median of the rounds counts. Logloss is that of rows behind them.
SGDClassifier has the best of some constant rates on the test rows.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--test_rows", type=int, default=200000)
    parser.add_argument("--num_features", type=int, default=1000000)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


args = parse()
sys.path.insert(0, str(args.build.resolve() / "python"))

try:
    import numpy as np
    import scipy.sparse as sp
    from sklearn.linear_model import SGDClassifier
    from sklearn.metrics import log_loss
except ImportError as error:
    print(f"skipped: {error}; tools/setup.sh --with-python installs what this needs")
    sys.exit(77)

import millrace


def read(pattern):
    batches = list(millrace.read_records(pattern, num_features=args.num_features, batch_size=100000))
    X = sp.vstack([batch.X for batch in batches], format="csr")
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, np.concatenate([batch.y for batch in batches]).astype(int)


def sgd_of_sklearn(rate):
    return SGDClassifier(loss="log_loss", penalty=None, learning_rate="constant", eta0=rate, shuffle=False)


def best_rate(X, y, test, test_y):
    losses = {}
    for rate in (0.003, 0.01, 0.03, 0.1):
        model = sgd_of_sklearn(rate).partial_fit(X, y, classes=[0, 1])
        losses[rate] = log_loss(test_y, model.predict_proba(test)[:, 1])
    return min(losses, key=losses.get)


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([args.build / "bin/millrace-records", "synth", f"--rows={args.rows}", "--shards=1",
                        f"--test_rows={args.test_rows}", f"--num_features={args.num_features}", f"--out={folder}"],
                       check=True, capture_output=True)
        X32, y = read(f"{folder}/train-*")
        test, test_y = read(f"{folder}/test-*")
    X64 = X32.astype(np.float64)
    print(f"{X32.shape[0]:,} rows, {X32.nnz / X32.shape[0]:.1f} entries a row, {X32.shape[1]:,} columns")
    rate = best_rate(X64, y, test, test_y)
    models = {
        f"SGDClassifier, rate {rate}": (lambda: sgd_of_sklearn(rate), X64),
        "millrace sgd": (lambda: millrace.LogisticRegression(optimizer="sgd"), X64),
        "millrace sgd, float32": (lambda: millrace.LogisticRegression(optimizer="sgd"), X32),
        "millrace adagrad": (lambda: millrace.LogisticRegression(optimizer="adagrad"), X64),
        "millrace ftrl": (lambda: millrace.LogisticRegression(), X64),
        "millrace ftrl, float32": (lambda: millrace.LogisticRegression(), X32),
    }
    seconds, losses = {name: [] for name in models}, {}
    for _ in range(args.rounds):
        for name, (make, X) in models.items():
            model = make()
            begin = time.perf_counter()
            model.partial_fit(X, y, classes=[0, 1])
            seconds[name].append(time.perf_counter() - begin)
            losses[name] = log_loss(test_y, model.predict_proba(test)[:, 1])
    for name, times in seconds.items():
        print(f"{name:28} {X32.shape[0] / statistics.median(times) / 1e6:6.2f} M rows/s   logloss {losses[name]:.5f}")


main()
