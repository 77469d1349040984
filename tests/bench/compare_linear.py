#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares training time and test logloss with other programs, on the same rows of the same machine.

    compare_linear.py TRAIN TEST [--rounds=5] [--vw=PATH] [--xlearn=PATH] [--bin=build/bin] [--work=FOLDER]
        [--lock=FILE]

TRAIN and TEST are globs of files of `millrace-records synth`. --vw is the program `vw`, --xlearn is `xlearn_train` with
`xlearn_predict` beside it; scikit-learn and PyTorch come from the packages python3-sklearn and python3-torch. What is
absent is left out with a message. --work keeps the converted data and the logloss of each training for the next call
(about 10 GB for 2,000,000 rows; a temporary folder otherwise): --rounds=0 computes logloss only, a second call then
takes the times only. --lock names a file that is locked (flock) during each round.

All train the same linear model with logistic loss, one weight per key, without a bias (xLearn always has one). Each
has two settings: `default` leaves every rate and regularization at the program's default; `tuned` takes the rate of
GRID with the least logloss on the last training file, after one pass over the other training files (scikit-learn also
drops its regularization). Test rows choose nothing.

Columns: seconds of one pass (median, least and most of the rounds), rows/s, test logloss after the pass, and the
seconds to reach the logloss that the program named in the column's head reaches in one pass (tuned). The script
searches the least number of rows that reaches it, in steps of a tenth of a pass and then in whole passes up to
MAX_PASSES, and times the training on that many rows. All settings take turns within a round. What is timed:

  millrace    the process of millrace-lr from TFRecord files; one training thread, two input threads
  vw          the process of vw from its binary cache (text is converted before); one training thread, one parser thread
  xlearn      the process of xlearn_train from its binary file (converted before); two threads without locks
  sklearn     SGDClassifier.partial_fit over a CSR matrix in memory, one thread
  torch       EmbeddingBag of one column (sparse gradients), SGD, batches of 100 rows in memory, one thread; no default
"""
import argparse
import contextlib
import fcntl
import functools
import glob
import importlib.util
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

NUM_FEATURES = 33762578
VW_BITS = 26  # The least number of bits that keeps all keys apart.
GRID = (0.003, 0.01, 0.03, 0.1, 0.3, 1, 3)
STEPS_PER_PASS = 10
MAX_PASSES = 3
BATCH = 100


def run(command):
    """Seconds of the whole process."""
    begin = time.perf_counter()
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                            env={**os.environ, "USER": "bench"})  # xLearn does not start without USER.
    if result.returncode != 0:
        raise SystemExit(f"compare_linear.py: exit status {result.returncode} of {command}\n"
                         f"{result.stdout}{result.stderr}")
    return time.perf_counter() - begin


def logloss(margins, labels):
    import numpy

    margins = numpy.asarray(margins, dtype=numpy.float64)
    signed = numpy.where(labels > 0, margins, -margins)
    loss = float(numpy.mean(numpy.maximum(-signed, 0) + numpy.log1p(numpy.exp(-numpy.abs(signed)))))
    return loss if math.isfinite(loss) else math.inf


class Part:
    """The rows of some files: keys [rows, fields] and labels (0, 1), and their text form for other programs."""

    def __init__(self, name, folder, keys, labels):
        self.name, self.folder, self.keys, self.labels = name, folder, keys, labels

    def __len__(self):
        return len(self.labels)

    def text(self, suffix, line):
        """The path of a file with one line per row, written at the first call."""
        path = self.folder / f"{self.name}.{suffix}"
        if not path.exists():
            with open(path.with_suffix(".part"), "w") as file:
                for begin in range(0, len(self), 10000):
                    rows = zip(self.labels[begin:begin + 10000].tolist(), self.keys[begin:begin + 10000].tolist())
                    file.writelines(line(label, keys) for label, keys in rows)
            path.with_suffix(".part").rename(path)
        return path

    def prefix(self, rows):
        return self if rows >= len(self) else \
            Part(f"{self.name}-{rows}", self.folder, self.keys[:rows], self.labels[:rows])


class Data:
    def __init__(self, args, folder):
        self.files, self.test_files = sorted(glob.glob(args.train)), sorted(glob.glob(args.test))
        if len(self.files) < 2 or not self.test_files:
            raise SystemExit(f"compare_linear.py: expected two or more files in {args.train} and one in {args.test}, "
                             f"found {len(self.files)} and {len(self.test_files)}")
        *files, last = [self.read(args, folder, file) for file in self.files]
        self.held_out = Part("held_out", folder, *last)
        self.train = self.join("train", folder, [*files, last])
        self.test = self.join("test", folder, [self.read(args, folder, file) for file in self.test_files])
        self.tune_rows = len(self.train) - len(self.held_out)

    @staticmethod
    def read(args, folder, path):
        """Keys and labels of one file, from the work folder if they were read before."""
        import numpy

        stored = folder / (pathlib.Path(path).name + ".npz")
        if not stored.exists():
            keys, labels = [], []
            with subprocess.Popen([f"{args.bin}/millrace-records", "cat", path], stdout=subprocess.PIPE) as process:
                for line in process.stdout:
                    row = json.loads(line)["features"]
                    keys.append(numpy.array(row["index"], dtype=numpy.int32))
                    labels.append(max(0, row["label"][0]))
            if process.returncode != 0 or not keys:
                raise SystemExit(f"compare_linear.py: no rows in {path}")
            numpy.savez(stored, keys=numpy.stack(keys), labels=numpy.array(labels, dtype=numpy.int8))
        with numpy.load(stored) as arrays:
            return arrays["keys"], arrays["labels"]

    @staticmethod
    def join(name, folder, parts):
        import numpy

        return Part(name, folder, *(numpy.concatenate(arrays) for arrays in zip(*parts)))


class Contender:
    """One program with one optimizer.

    `seconds` trains on the first `rows` training rows (more rows than there are: whole passes) without writing a model.
    `loss` trains the same way and gives the logloss on `part`. Rate None is the program's default.
    """

    default = None  # The default rate as text; None if the program has none.

    def __init__(self, data):
        self.data = data

    def passes(self, rows):
        return max(1, rows // len(self.data.train))


class Millrace(Contender):
    threads = "1 + 2"

    def __init__(self, data, args, optimizer, default):
        super().__init__(data)
        self.default = default
        self.command = [f"{args.bin}/millrace-lr", f"--num_features={NUM_FEATURES}", "--nointercept", f"--optimizer={optimizer}",
                        "--threads=2"]

    def flags(self, rate, rows):
        flags = [] if rate is None else [f"--learning_rate={rate}"]
        passes = self.passes(rows)
        return [*flags, f"--epochs={passes}", "--cache=4000"] if passes > 1 else [*flags, f"--max_examples={rows}"]

    def seconds(self, rate, rows):
        return run([*self.command, f"--train={','.join(self.data.files)}", *self.flags(rate, rows)])

    def loss(self, rate, rows, part):
        train, test = self.data.files, self.data.test_files
        if part is self.data.held_out:
            train, test = train[:-1], train[-1:]
        with tempfile.TemporaryDirectory() as folder:
            run([*self.command, f"--train={','.join(train)}", f"--test={','.join(test)}", *self.flags(rate, rows),
                 f"--run_dir={folder}/run"])
            with open(f"{folder}/run/metrics.csv") as file:
                header, *_, last = (line.rstrip("\n").split(",") for line in file)
        return float(dict(zip(header, last))["logloss"])


class Vw(Contender):
    threads = "1 + 1"

    def __init__(self, data, args, algorithm, rate_flag, default):
        super().__init__(data)
        self.default, self.rate_flag, self.program = default, rate_flag, args.vw
        self.train_flags = ["-b", VW_BITS, "--loss_function", "logistic", "--noconstant", "--holdout_off", *algorithm]

    def cache(self, part):
        path = part.folder / f"{part.name}.vw.cache"
        if not path.exists():
            text = part.text("vw", lambda label, keys: f"{1 if label else -1} | {' '.join(map(str, keys))}\n")
            run([self.program, "-d", text, "--cache_file", path, "-b", VW_BITS, "--noconstant", "--quiet"])
            text.unlink()
        return path

    def command(self, rate, rows):
        passes = self.passes(rows)
        return [self.program, "--cache_file", self.cache(self.data.train), "--quiet", *self.train_flags,
                *([] if rate is None else [self.rate_flag, rate]),
                *(["--passes", passes] if passes > 1 else ["--examples", rows])]

    def seconds(self, rate, rows):
        return run(self.command(rate, rows))

    def loss(self, rate, rows, part):
        import numpy

        with tempfile.TemporaryDirectory() as folder:
            run([*self.command(rate, rows), "-f", f"{folder}/model"])
            run([self.program, "--quiet", "-t", "-i", f"{folder}/model", "--cache_file", self.cache(part),
                 "-p", f"{folder}/margins"])
            return logloss(numpy.loadtxt(f"{folder}/margins"), part.labels)


class Xlearn(Contender):
    threads = "2"

    def __init__(self, data, args, optimizer, rate_flag, default):
        super().__init__(data)
        self.default, self.rate_flag, self.program = default, rate_flag, args.xlearn
        self.log = data.train.folder / "xlearn.log"
        self.flags = ["-s", 0, "-p", optimizer, "-nthread", 2, "--dis-es", "--quiet", "-l", self.log]

    @staticmethod
    def text(part):
        return part.text("svm", lambda label, keys: f"{label} {' '.join(f'{key}:1' for key in keys)}\n")

    def command(self, rate, rows, model):
        return [self.program, self.text(self.data.train.prefix(rows)), *self.flags, "-e", self.passes(rows),
                "-m", model, *([] if rate is None else [self.rate_flag, rate])]

    def seconds(self, rate, rows):
        return run(self.command(rate, rows, "none"))

    def loss(self, rate, rows, part):
        import numpy

        with tempfile.TemporaryDirectory() as folder:
            run(self.command(rate, rows, f"{folder}/model"))
            run([pathlib.Path(self.program).with_name("xlearn_predict"), self.text(part), f"{folder}/model",
                 "-o", f"{folder}/margins", "-l", self.log])
            return logloss(numpy.loadtxt(f"{folder}/margins"), part.labels)


class Sklearn(Contender):
    threads = "1"
    default = "optimal"

    @staticmethod
    @functools.lru_cache(maxsize=4)
    def matrix(part):
        import numpy
        from scipy.sparse import csr_matrix

        rows, width = part.keys.shape
        return csr_matrix((numpy.ones(part.keys.size), part.keys.ravel(),
                           numpy.arange(0, part.keys.size + 1, width, dtype=numpy.int32)), shape=(rows, NUM_FEATURES))

    def fit(self, rate, rows):
        """The model, and the seconds of its training."""
        from sklearn.linear_model import SGDClassifier

        tuned = {} if rate is None else {"alpha": 0, "learning_rate": "constant", "eta0": rate}
        model = SGDClassifier(loss="log_loss", fit_intercept=False, shuffle=False, **tuned)
        matrix, labels = self.matrix(self.data.train)[:rows], self.data.train.labels[:rows]
        begin = time.perf_counter()
        for _ in range(self.passes(rows)):
            model.partial_fit(matrix, labels, classes=[0, 1])
        return model, time.perf_counter() - begin

    def seconds(self, rate, rows):
        return self.fit(rate, rows)[1]

    def loss(self, rate, rows, part):
        return logloss(self.fit(rate, rows)[0].decision_function(self.matrix(part)), part.labels)


class Torch(Contender):
    threads = "1"

    def fit(self, rate, rows):
        import torch

        torch.set_num_threads(1)  # A second thread gains nothing on such batches.
        bag = torch.nn.EmbeddingBag(NUM_FEATURES, 1, mode="sum", sparse=True)
        torch.nn.init.zeros_(bag.weight)
        optimizer = torch.optim.SGD(bag.parameters(), lr=rate)
        loss = torch.nn.BCEWithLogitsLoss()
        train = self.data.train
        keys, labels = torch.from_numpy(train.keys[:rows]).long(), torch.from_numpy(train.labels[:rows]).float()
        begin = time.perf_counter()
        for _ in range(self.passes(rows)):
            for at in range(0, len(labels), BATCH):
                optimizer.zero_grad(set_to_none=True)
                loss(bag(keys[at:at + BATCH]).squeeze(1), labels[at:at + BATCH]).backward()
                optimizer.step()
        return bag, time.perf_counter() - begin

    def seconds(self, rate, rows):
        return self.fit(rate, rows)[1]

    def loss(self, rate, rows, part):
        import torch

        bag, _ = self.fit(rate, rows)
        with torch.no_grad():
            return logloss(bag(torch.from_numpy(part.keys).long()).squeeze(1).numpy(), part.labels)


def find_contenders(args, data):
    found = {f"millrace {name}": Millrace(data, args, name, default)
             for name, default in (("sgd", "0.5"), ("adagrad", "0.1"), ("ftrl", "0.1"))}
    if args.vw:
        found["vw sgd"] = Vw(data, args, ["--sgd"], "-l", "10")
        found["vw adaptive"] = Vw(data, args, [], "-l", "0.5")
        found["vw ftrl"] = Vw(data, args, ["--ftrl"], "--ftrl_alpha", "0.005")
    if args.xlearn:
        found["xlearn adagrad"] = Xlearn(data, args, "adagrad", "-r", "0.2")
        found["xlearn ftrl"] = Xlearn(data, args, "ftrl", "-alpha", "0.3")
    if importlib.util.find_spec("sklearn"):
        found["sklearn sgd"] = Sklearn(data)
    if importlib.util.find_spec("torch"):
        found["torch sgd"] = Torch(data)
    return found


def print_versions(args, names):
    def output(*command):
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    print(next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?"))
    print(output(f"{args.bin}/millrace-lr", "--version"))
    print(f"vw {output(args.vw, '--version').split()[0]}" if args.vw else "vw: left out, no --vw")
    if args.xlearn:
        print(next(line.strip(" -") for line in output(args.xlearn).splitlines() if "Version" in line))
    else:
        print("xlearn: left out, no --xlearn")
    for peer in ("sklearn", "torch"):
        present = any(name.startswith(peer) for name in names)
        print(f"{peer} {importlib.import_module(peer).__version__}" if present else f"{peer}: left out, not installed")


class Comparison:
    def __init__(self, args, found, data):
        self.args, self.found, self.data = args, found, data
        self.times = {}
        self.losses_file = data.train.folder / "losses.json"
        self.losses = json.loads(self.losses_file.read_text()) if self.losses_file.exists() else {}

    @contextlib.contextmanager
    def lock(self):
        if not self.args.lock:
            yield
            return
        with open(self.args.lock, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def loss(self, name, rate, rows, part):
        key = f"{name}, rate {rate}, {rows} rows, {part.name}"
        if key not in self.losses:
            self.losses[key] = self.found[name].loss(rate, rows, part)
            self.losses_file.write_text(json.dumps(self.losses, indent=1))
        return self.losses[key]

    def tune(self, name):
        losses = {rate: self.loss(name, rate, self.data.tune_rows, self.data.held_out) for rate in GRID}
        shown = " ".join(f"{rate}:{loss:.4f}" for rate, loss in losses.items())
        print(f"{name:16} held-out logloss by rate: {shown}", flush=True)
        return min(losses, key=losses.get)

    def rows_until(self, name, rate, target):
        """The least number of rows that gives `target`, or None. Assumes that logloss falls during the first pass."""
        rows = len(self.data.train)
        reached = lambda count: self.loss(name, rate, count, self.data.test) <= target
        if not reached(rows):
            return next((rows * passes for passes in range(2, MAX_PASSES + 1) if reached(rows * passes)), None)
        low, high = 0, STEPS_PER_PASS  # not reached, reached
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if reached(rows * middle // STEPS_PER_PASS) else (middle, high)
        return rows * high // STEPS_PER_PASS

    def measure(self, jobs, rounds):
        for _ in range(rounds):
            with self.lock():
                for name, rate, rows in jobs:
                    self.times.setdefault((name, rate, rows), []).append(self.found[name].seconds(rate, rows))

    def line(self, name, rate, kind, needed):
        rows = len(self.data.train)
        contender, times = self.found[name], self.times.get((name, rate, rows), [math.nan])
        median = statistics.median(times)
        cells = []
        for count in needed:
            if count is None:
                cells.append(f"{'not in ' + str(MAX_PASSES) + ' passes':>26}")
            else:
                seconds = statistics.median(self.times.get((name, rate, count), [math.nan]))
                cells.append(f"{seconds:8.2f} ({count / rows:4.2f} passes)".rjust(26))
        return (f"{name:16} {kind:8} {rate or contender.default:>8} {contender.threads:>7} {median:8.2f} "
                f"({min(times):6.2f} to {max(times):6.2f}) {rows / median:12,.0f} "
                f"{self.loss(name, rate, rows, self.data.test):8.4f} {''.join(cells)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--vw")
    parser.add_argument("--xlearn")
    parser.add_argument("--bin", default=str(pathlib.Path(__file__).parents[2] / "build/bin"))
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--lock")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.work:
            args.work.mkdir(parents=True, exist_ok=True)
        data = Data(args, args.work or pathlib.Path(folder))
        found = find_contenders(args, data)
        print_versions(args, found)
        print(f"{len(data.train):,} training rows, {len(data.test):,} test rows", flush=True)
        compare(Comparison(args, found, data))


def compare(comparison):
    found, rows = comparison.found, len(comparison.data.train)
    tuned = {name: comparison.tune(name) for name in found}
    settings = []
    for name, contender in found.items():
        same = contender.default == str(tuned[name])
        if contender.default and not same:
            settings.append((name, None, "default"))
        settings.append((name, tuned[name], "both" if same else "tuned"))
    heads = [name for name in ("millrace ftrl", "vw adaptive") if name in found]
    targets = [comparison.loss(name, tuned[name], rows, comparison.data.test) for name in heads]
    needed = {(name, rate): [comparison.rows_until(name, rate, target) for target in targets]
              for name, rate, _ in settings}
    jobs = {(name, rate, count): None for (name, rate), counts in needed.items() for count in [rows, *counts] if count}
    comparison.measure(list(jobs), comparison.args.rounds)
    print(f"{'':16} {'setting':8} {'rate':>8} {'threads':>7} {'seconds':>8} {'(least to most)':18} {'rows/s':>12} "
          f"{'logloss':>8} " + "".join(f"to {loss:.4f} ({name})".rjust(26) for name, loss in zip(heads, targets)))
    for name, rate, kind in settings:
        print(comparison.line(name, rate, kind, needed[name, rate]))


if __name__ == "__main__":
    main()
