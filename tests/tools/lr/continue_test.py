#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chained runs (--continue), chronological order, and folders that must not be overwritten.

Usage: continue_test.py BIN_DIR
"""
import hashlib
import pathlib
import subprocess
import sys
import tempfile

DAYS = 7
ROWS = 300  # of a day: whole batches
BATCH = 50


class Test:
    def __init__(self, bin_dir, folder):
        self.bin_dir, self.folder = bin_dir, folder
        self.errors = 0

    def lr(self, *flags, status=0, job=None):
        words = [str(self.bin_dir / "millrace-lr"), *flags]
        if any(flag.startswith("--run_dir=") for flag in flags):
            words.append("--sample_ms=0")
        if job:
            words = [str(self.bin_dir / "millrace-launch"), f"--num_ps={job[0]}", f"--num_workers={job[1]}",
                     "--", *words, "--mode=sync"]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                              check=False)
        if done.returncode != status:
            self.fail(f"{' '.join(words)}: status {done.returncode}, expected {status}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def fail(self, message):
        print(message)
        self.errors += 1

    def expect(self, holds, message):
        if not holds:
            self.fail(message)


def digest(run_dir):
    return hashlib.sha256((run_dir / "model/model.bin").read_bytes()).hexdigest()


def tree(folder):
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def write_days(folder):
    """Later days bring new keys."""
    state = 1
    for day in range(DAYS):
        with open(folder / f"day-{day}.libsvm", "w", encoding="ascii") as out:
            for _ in range(ROWS):
                keys = set()
                for _ in range(5):
                    state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
                    keys.add((state >> 33) % features(day))
                label = 1 if (sum(keys) + (state >> 60)) % 3 == 0 else 0
                out.write(f"{label} " + " ".join(f"{k}:1" for k in sorted(keys)) + "\n")


def features(day):
    return 100 + 20 * day


def chained_days(test):
    for optimizer in ("sgd", "adagrad", "ftrl", "adam"):
        for hashed in (False, True):
            name = f"{optimizer}-{'hashed' if hashed else 'dense'}"
            common = ["--order=files", f"--batch_size={BATCH}"]
            rule = [f"--optimizer={optimizer}", "--learning_rate=0.1", "--l2=0.001"]
            size = lambda day: [] if hashed else [f"--num_features={features(day)}"]
            one = test.folder / f"{name}-one"
            test.lr(f"--train={test.folder}/day-*.libsvm", *common, *rule, *size(DAYS - 1), f"--run_dir={one}")
            for day in range(DAYS):
                run = test.folder / f"{name}-{day}"
                more = [f"--continue={test.folder}/{name}-{day - 1}"] if day else rule
                threads = 1 + day % 3
                test.lr(f"--train={test.folder}/day-{day}.libsvm", *common, *size(day), *more, f"--threads={threads}",
                        f"--run_dir={run}")
            test.expect(digest(run) == digest(one), f"{name}: seven chained days differ from one run")


def job_continues(test):
    """A job continues from one process, and one process from a job."""
    base = test.folder / "adagrad-dense-5"
    common = [f"--train={test.folder}/day-6.libsvm", "--order=files", f"--batch_size={BATCH}",
              f"--num_features={features(6)}"]
    job = test.folder / "job"
    test.lr(*common, f"--continue={base}", f"--run_dir={job}", job=(2, 1))
    test.expect(digest(job) == digest(test.folder / "adagrad-dense-6"), "a job of one worker differs from one process")
    back = test.folder / "back"
    out = test.lr(*common, f"--continue={job}", f"--run_dir={back}")
    test.expect("2,400 examples in 48 steps" in out, f"counts do not continue: {out}")
    part = job / "checkpoints/shard-1/checkpoint-000000000042"
    out = test.lr(*common, f"--continue={part}", f"--run_dir={test.folder / 'part'}")
    test.expect(digest(test.folder / "part") == digest(back), "a part of a checkpoint is not the run")
    part.unlink()
    out = test.lr(*common, f"--continue={job}", f"--run_dir={test.folder / 'gone'}", status=1)
    test.expect("shard-1/checkpoint-000000000042: part 1 of the 2 of checkpoint 42 is missing" in out, out)


def with_numbers(test, day, name):
    """The rows of a day and two numeric columns, of large numbers and of small ones."""
    path = test.folder / name
    with open(path, "w", encoding="ascii") as out:
        for i, line in enumerate((test.folder / f"day-{day}.libsvm").read_text().splitlines()):
            out.write(f"{line} 300:{2000 + 37 * (i % 11) + 90 * int(line[0])} 301:{(i % 7 - 3) / 1e5}\n")
    return path


def chained_numbers(test):
    common = ["--order=files", f"--batch_size={BATCH}", "--num_features=310", "--learning_rate=0.1"]
    days = [with_numbers(test, day, f"num-{day}.libsvm") for day in range(DAYS)]
    for optimizer in ("sgd", "adagrad", "ftrl", "adam"):
        one = test.folder / f"num-{optimizer}-one"
        rule = [f"--optimizer={optimizer}"]
        out = test.lr(f"--train={test.folder}/num-*.libsvm", *common, *rule, f"--run_dir={one}")
        test.expect("(2 centered features)" in out, out)
        for i, day in enumerate(days):
            run = test.folder / f"num-{optimizer}-{i}"
            more = [f"--continue={test.folder}/num-{optimizer}-{i - 1}"] if i else []
            test.lr(f"--train={day}", *common, *rule, *more, f"--run_dir={run}")
        test.expect(digest(run) == digest(one), f"{optimizer}: chained days with numbers differ from one run")


def numbers_after_ones(test):
    """Values are normalised from the first run that has other values than 1, on servers too."""
    common = ["--order=files", f"--batch_size={BATCH}", "--num_features=310"]
    day = f"--train={with_numbers(test, 1, 'later.libsvm')}"
    ones = test.folder / "ones"
    test.lr(f"--train={test.folder}/day-0.libsvm", *common, "--learning_rate=0.1", f"--run_dir={ones}")
    out = test.lr(day, *common, f"--continue={ones}", f"--run_dir={test.folder / 'after'}")
    test.expect("normalized values (2 centered features)" in out, out)
    test.expect("progressive loss 0." in out and "warning" not in out, f"diverges: {out}")
    test.lr(day, *common, f"--continue={ones}", f"--run_dir={test.folder / 'after-job'}", job=(2, 1))
    test.expect(digest(test.folder / "after") == digest(test.folder / "after-job"), "servers differ from one process")
    raw = test.folder / "raw"
    test.lr(day, *common, f"--continue={ones}", "--normalize=off", f"--run_dir={raw}")
    out = test.lr(day, *common, f"--continue={raw}", "--normalize=on", f"--run_dir={test.folder / 'x'}", status=2)
    test.expect("trained on values as they are" in out, out)


def options_of_the_earlier_run(test):
    base = test.folder / "ftrl-dense-0"
    common = [f"--train={test.folder}/day-1.libsvm", "--order=files", f"--continue={base}"]
    out = test.lr(*common, "--optimizer=adam", status=2)
    test.expect("optimizer: this run has adam, the earlier one ftrl" in out, out)
    out = test.lr(*common, "--num_features=50", status=2)
    test.expect("num_features: this run has 50, the earlier one 100" in out, out)
    # Another rate keeps the weights: with no rows but the first, all other weights stay.
    first = test.folder / "first.libsvm"
    first.write_text("1 0:1\n")
    for rate in ("0.1", "0.3"):
        test.lr(f"--train={first}", f"--continue={base}", f"--learning_rate={rate}", "--l1=0.01", "--model_format=text",
                f"--run_dir={test.folder / ('rate-' + rate)}")
    test.lr(f"--train={first}", f"--model_in={base}", "--num_features=100", "--model_format=text",
            f"--run_dir={test.folder / 'weights'}")
    read = lambda run: {k: float(w) for k, w in (
        line.split("\t") for line in (test.folder / run / "model/model.txt").read_text().splitlines()
        if not line.startswith("#"))}
    plain = read("weights")
    for rate in ("rate-0.1", "rate-0.3"):
        found = read(rate)
        worst = max(abs(found.get(k, 0) - w) for k, w in plain.items() if k not in ("0", "intercept"))
        test.expect(worst < 1e-6, f"{rate}: a weight changed by {worst}")
    out = test.lr(f"--train={first}", f"--continue={base}/model/model.bin", "--run_dir=" + str(test.folder / "model"))
    test.expect("has no optimizer state" in out, out)
    out = test.lr(f"--train={first}", f"--model_in={base}", "--num_features=100")
    test.expect("without optimizer state" in out, out)


def keys_of_the_earlier_run(test):
    """How text becomes keys is taken from the earlier run; a contradiction is an error, and no run replaces its source."""
    vw = test.folder / "rows.vw"
    vw.write_text("".join(f"{1 if i % 3 else -1} |f a{i % 7} b{i % 5}\n" for i in range(200)))
    base = test.folder / "vw"
    test.lr(f"--train={vw}", "--hash_bits=20", "--novw_hash_all", f"--run_dir={base}")
    test.lr(f"--train={vw}", f"--continue={base}", "--model_format=text", f"--run_dir={test.folder / 'vw-2'}")
    keys = [line.split("\t")[0] for line in (test.folder / "vw-2/model/model.txt").read_text().splitlines()
            if not line.startswith(("#", "intercept"))]
    test.expect(len(keys) == 12 and all(int(k) < 1 << 20 for k in keys), f"keys of another hash: {keys}")
    gone = f"--run_dir={test.folder / 'gone-2'}"
    for flags, message in ((["--hash_bits=22"], "hash_bits: this run has 22, the earlier one 20"),
                           (["--vw_hash_all"], "vw_hash_all: this run has 1, the earlier one 0")):
        out = test.lr(f"--train={vw}", f"--continue={base}", *flags, gone, status=2)
        test.expect(message in out, out)
    out = test.lr(f"--train={test.folder}/day-0.libsvm", f"--continue={base}", gone, status=2)
    test.expect("the training data is libsvm, that of the earlier run was vw" in out, out)
    before = tree(base)
    for source in ("--continue", "--model_in"):
        out = test.lr(f"--train={vw}", f"{source}={base}/model/model.bin", f"--run_dir={base}", "--overwrite", status=2)
        test.expect("expected a run outside --run_dir" in out, out)
    test.expect(tree(base) == before, "a run was replaced by one that starts from it")


def order(test):
    """Files by name, rows as they stand: with one row a batch and constant data, the loss shows it."""
    data = test.folder / "order"
    data.mkdir()
    for name, key in (("b", 2), ("a", 1), ("c", 3)):
        (data / f"{name}.libsvm").write_text("".join(f"1 {key}:1 {10 + key}:{i + 1}\n" for i in range(400)))
    base = ["--num_features=20", "--batch_size=1", "--epochs=2", "--interleave=8"][:3]
    runs = []
    for i, (files, flags) in enumerate([("a,b,c", []), ("c,b,a", []), ("b,c,a", ["--threads=1"]), ("a,b,c", ["--threads=4"])]):
        run = test.folder / f"order-{i}"
        test.lr("--train=" + ",".join(f"{data}/{f}.libsvm" for f in files.split(",")), *base, *flags, "--order=files",
                f"--run_dir={run}")
        runs.append(digest(run))
    test.expect(len(set(runs)) == 1, "--order=files depends on the order of the list or on threads")
    listed = test.folder / "order-listed"
    test.lr(f"--train={data}/a.libsvm,{data}/b.libsvm,{data}/c.libsvm", *base, "--shuffle_capacity=0", f"--run_dir={listed}")
    test.expect(digest(listed) == runs[0], "--shuffle_capacity=0 differs from --order=files")
    out = test.lr(f"--train={data}/a.libsvm", *base, "--order=files", "--shuffle_capacity=1000", status=2)
    test.expect("--order=files keeps the rows as they stand" in out, out)
    test.lr(f"--train={data}/a.libsvm", *base, "--order=random", status=2)


def never_destroyed(test):
    run = test.folder / "kept"
    common = [f"--train={test.folder}/day-*.libsvm", f"--num_features={features(6)}", "--batch_size=50", f"--run_dir={run}"]
    rate = "--learning_rate=0.1"
    test.lr(*common, rate, "--max_examples=700", job=(2, 2))

    def refused(flags, message, job=None):
        before = tree(run)
        out = test.lr(*common, rate, *flags, status=2, job=job)
        test.expect(message in out, f"expected {message!r}: {out}")
        now = tree(run)
        for path, content in before.items():
            if "run.json" in path or "resources" in path:
                continue
            test.expect(now.get(path) == content, f"{flags} {job}: {path} has changed")

    for job in (None, (1, 2), (2, 2)):
        refused([], "holds an earlier run (finished)", job=job)
        refused(["--resume", "--batch_size=60"], "this run has batch_size=60, the checkpoint batch_size=50", job=job)
        refused(["--resume", "--learning_rate=0.2"], "option.rate: this run has 0.2, the checkpoint 0.1", job=job)
        refused(["--resume", "--seed=2"], "this run has seed=2, the checkpoint seed=1", job=job)
    manifest = run / "checkpoints/manifest"
    saved = manifest.read_bytes()
    for job in (None, (1, 1), (2, 2)):
        manifest.write_bytes(saved[:-1])
        refused(["--resume"], "nothing says which checkpoint to resume from", job=job)
        manifest.unlink()
        refused(["--resume"], "no manifest that names one", job=job)
        manifest.write_bytes(saved)
    part = next((run / "checkpoints/shard-1").glob("checkpoint-*"))
    hidden = run / "hidden"
    part.rename(hidden)
    for job in (None, (1, 1), (2, 2)):
        refused(["--resume"], "checkpoint 7", job=job)
    hidden.rename(part)
    (run / "run.json").unlink()
    out = test.lr(*common, status=2)
    test.expect("holds an earlier run (unknown)" in out, out)
    test.lr(*common, "--overwrite", "--nosave_state")
    test.expect(not list((run / "checkpoints").rglob("checkpoint-*")), "--nosave_state saved a state")
    out = test.lr(*common, "--resume", "--epochs=2", status=2)
    test.expect("finished run without checkpoints" in out, out)


def main():
    with tempfile.TemporaryDirectory() as name:
        test = Test(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(name))
        write_days(test.folder)
        parts = [chained_days, job_continues, chained_numbers, numbers_after_ones,
                 options_of_the_earlier_run, keys_of_the_earlier_run, order, never_destroyed]
        for part in parts:
            before = test.errors
            part(test)
            print(f"{part.__name__}: {'failed' if test.errors > before else 'ok'}", flush=True)
        sys.exit(1 if test.errors else 0)


main()
