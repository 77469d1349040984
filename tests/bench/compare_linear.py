#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares training speed and test logloss with other programs, on the same rows of the same machine.

    compare_linear.py TRAIN TEST [--rounds=3] [--rows=0] [--bin=build/bin] [--peers=sklearn,torch]

TRAIN and TEST are globs of files of `millrace-records synth`. The program prints the machine and all versions, then
one line per contender. --rows=N trains on N rows only (millrace draws them from all files); 0 takes all rows.

Speed: medians of ROUNDS rounds in which the contenders take turns (--rounds=0 leaves speed out). What is timed:

  millrace    the whole process of millrace-lr from files, one pass (start, reading, decoding and model included)
  sklearn     SGDClassifier.fit, log loss, 10 passes over rows that are already a CSR matrix in memory
  torch       EmbeddingBag of one column (sparse gradients) with SGD, batches of 100 rows that are in memory; 2 threads

Quality: the logloss on TEST after one pass over the same rows. Each contender is trained with each learning rate of its
list in RATES, and the best rate counts. The last two columns compare at equal logloss: the rows that a contender needs
until its test logloss is as low as the one that the worst contender reaches in the whole pass (looked at 20 times a
pass), and the time for them at its measured speed.

Needs the packages python3-sklearn and python3-torch: a peer that is not installed is left out.
"""
import argparse
import csv
import glob
import importlib.util
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

NUM_FEATURES = 33762578
SKLEARN_PASSES = 10
TORCH_TIMED_ROWS = 40000
EVALUATIONS = 20
RATES = {
    "millrace sgd": (0.5, 1, 2),
    "millrace adagrad": (0.05, 0.1, 0.2),
    "millrace ftrl": (0.05, 0.1, 0.2),
    "sklearn": (0.003, 0.01, 0.03, 0.1),
    "torch": (0.5, 1, 2, 4),
}


def installed(module):
    return importlib.util.find_spec(module) is not None


def cpu_model():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def read_rows(args, pattern, limit):
    """Keys [rows, fields] and labels [rows] of the files, in the order of the files."""
    import numpy

    command = [f"{args.bin}/millrace-records", "cat", *sorted(glob.glob(pattern))]
    if limit:
        command.insert(2, f"--limit={limit}")
    keys, labels, chunk = [], [], []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        for line in process.stdout:
            row = json.loads(line)["features"]
            chunk.append(row["index"])
            labels.append(max(0, row["label"][0]))
            if len(chunk) == 100000:
                keys.append(numpy.array(chunk, dtype=numpy.int64))
                chunk = []
    if chunk:
        keys.append(numpy.array(chunk, dtype=numpy.int64))
    if process.returncode != 0 or not keys:
        raise SystemExit(f"compare_linear.py: no rows in {pattern}")
    return numpy.concatenate(keys), numpy.array(labels, dtype=numpy.int64)


def logloss(margins, labels):
    import numpy

    signed = numpy.where(labels > 0, margins, -margins)
    return float(numpy.mean(numpy.maximum(-signed, 0) + numpy.log1p(numpy.exp(-numpy.abs(signed)))))


class Millrace:
    """Trains on the files; the clock sees the whole process."""

    def __init__(self, args, optimizer, rows):
        self.rows = rows
        self.test = args.test
        self.command = [f"{args.bin}/millrace-lr", f"--train={args.train}", f"--num_features={NUM_FEATURES}",
                        f"--optimizer={optimizer}", "--threads=2", f"--max_examples={rows}"]

    def speed(self, rate):
        begin = time.perf_counter()
        subprocess.run([*self.command, f"--learning_rate={rate}"], check=True, capture_output=True)
        return self.rows / (time.perf_counter() - begin)

    def curve(self, rate):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([*self.command, f"--learning_rate={rate}", f"--test={self.test}",
                            f"--eval_every={self.rows // EVALUATIONS}", f"--run_dir={folder}/run"],
                           check=True, capture_output=True)
            with open(f"{folder}/run/metrics.csv") as file:
                return [(int(row["examples"]), float(row["logloss"])) for row in csv.DictReader(file)]


class Sklearn:
    def __init__(self, train, test):
        self.train, self.test = self.matrix(train[0]), self.matrix(test[0])
        self.labels, self.test_labels = train[1], test[1]

    @staticmethod
    def matrix(index):
        import numpy
        from scipy.sparse import csr_matrix

        rows, width = index.shape
        return csr_matrix((numpy.ones(index.size), index.astype(numpy.int32).ravel(),
                           numpy.arange(0, index.size + 1, width, dtype=numpy.int32)), shape=(rows, NUM_FEATURES))

    @staticmethod
    def model(rate, passes):
        from sklearn.linear_model import SGDClassifier

        return SGDClassifier(loss="log_loss", alpha=0, learning_rate="constant", eta0=rate, shuffle=False, tol=None,
                             max_iter=passes)

    def speed(self, rate):
        model = self.model(rate, SKLEARN_PASSES)
        begin = time.perf_counter()
        model.fit(self.train, self.labels)
        return SKLEARN_PASSES * len(self.labels) / (time.perf_counter() - begin)

    def curve(self, rate):
        model = self.model(rate, 1)
        rows, points = len(self.labels), []
        for end in slice_ends(rows):
            begin = points[-1][0] if points else 0
            model.partial_fit(self.train[begin:end], self.labels[begin:end], classes=[0, 1])
            points.append((end, logloss(model.decision_function(self.test), self.test_labels)))
        return points


class Torch:
    def __init__(self, train, test):
        import torch

        torch.set_num_threads(2)
        self.keys, self.labels = torch.from_numpy(train[0]), torch.from_numpy(train[1]).float()
        self.test_keys, self.test_labels = torch.from_numpy(test[0]), test[1]

    def start(self, rate):
        import torch

        self.bag = torch.nn.EmbeddingBag(NUM_FEATURES, 1, mode="sum", sparse=True)
        torch.nn.init.zeros_(self.bag.weight)
        self.optimizer = torch.optim.SGD(self.bag.parameters(), lr=rate)
        self.loss = torch.nn.BCEWithLogitsLoss()

    def fit(self, begin, end):
        for at in range(begin, end, 100):
            stop = min(at + 100, end)
            self.optimizer.zero_grad(set_to_none=True)
            self.loss(self.bag(self.keys[at:stop]).squeeze(1), self.labels[at:stop]).backward()
            self.optimizer.step()

    def speed(self, rate):
        self.start(rate)
        rows = min(len(self.labels), TORCH_TIMED_ROWS)
        begin = time.perf_counter()
        self.fit(0, rows)
        return rows / (time.perf_counter() - begin)

    def curve(self, rate):
        import torch

        self.start(rate)
        points = []
        for end in slice_ends(len(self.labels)):
            self.fit(points[-1][0] if points else 0, end)
            with torch.no_grad():
                margins = self.bag(self.test_keys).squeeze(1).numpy()
            points.append((end, logloss(margins, self.test_labels)))
        return points


def slice_ends(rows):
    step = max(1, rows // EVALUATIONS)
    return [*range(step, rows - step + 1, step), rows]


def best_curve(name, contender):
    """The rate with the lowest logloss at the end of the pass, and its curve."""
    curves = {rate: contender.curve(rate) for rate in RATES[name]}
    rate = min(curves, key=lambda r: curves[r][-1][1])
    return rate, curves[rate]


def rows_until(curve, target):
    return next(rows for rows, loss in curve if loss <= target)


def contenders(args):
    peers = [peer for peer in args.peers.split(",") if peer in ("sklearn", "torch") and installed(peer)]
    train = read_rows(args, args.train, args.rows)
    test = read_rows(args, args.test, 0)
    found = {f"millrace {name}": Millrace(args, name, len(train[1])) for name in ("sgd", "adagrad", "ftrl")}
    for peer in peers:
        found[peer] = {"sklearn": Sklearn, "torch": Torch}[peer](train, test)
    return found, len(train[1]), len(test[1])


def print_versions(args, names):
    version = subprocess.run([f"{args.bin}/millrace-lr", "--version"], check=True, capture_output=True, text=True)
    print(cpu_model())
    print(version.stdout.strip(), end="")
    for peer in ("sklearn", "torch"):
        if peer in names:
            print(f", {peer} {importlib.import_module(peer).__version__}", end="")
    print()


def print_table(rates, best, target):
    print(f"{'':18} {'rate':>6} {'rows/s':>12} {'least':>12} {'most':>12} {'logloss':>8} "
          f"{f'rows to {target:.4f}':>16} {'seconds':>8}")
    for name, (rate, curve) in best.items():
        needed = rows_until(curve, target)
        speeds = rates.get(name)
        timed = [f"{value:12,.0f}" for value in (statistics.median(speeds), min(speeds), max(speeds))] if speeds else \
            [f"{'':12}"] * 3
        seconds = f"{needed / statistics.median(speeds):8.2f}" if speeds else f"{'':8}"
        print(f"{name:18} {rate:>6} {' '.join(timed)} {curve[-1][1]:8.4f} {needed:16,} {seconds}".rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--bin", default=str(pathlib.Path(__file__).parents[2] / "build/bin"))
    parser.add_argument("--peers", default="sklearn,torch")
    args = parser.parse_args()
    found, rows, test_rows = contenders(args)
    print_versions(args, found)
    print(f"one pass over {rows:,} rows, {test_rows:,} test rows")
    best = {name: best_curve(name, contender) for name, contender in found.items()}
    rates = {}
    for _ in range(args.rounds):
        for name, contender in found.items():
            rates.setdefault(name, []).append(contender.speed(best[name][0]))
    print_table(rates, best, max(curve[-1][1] for _, curve in best.values()))


if __name__ == "__main__":
    main()
