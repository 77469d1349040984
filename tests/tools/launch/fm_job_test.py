#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Factorization machines on servers: the model of sync jobs, killed servers and workers, checkpoints of any topology,
continued runs and evaluations.

Usage: fm_job_test.py BIN_DIR
"""
import glob
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
VALUES = 20  # of each of three columns


def command(topology, mode, words):
    trainer = [str(BIN / "millrace-lr"), *map(str, words)]
    if topology is None:
        return trainer
    servers, workers = topology
    launch = [str(BIN / "millrace-launch"), f"--num_ps={servers}", f"--num_workers={workers}", "--restart=2", "--"]
    return launch + trainer + [f"--mode={mode}"]


def run(words, status=0):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != status:
        raise AssertionError(f"{words}: status {done.returncode}, expected {status}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def write_rows(path, seed, rows):
    """The label depends on whether the values of the first two columns have the same parity, which no linear model
    sees."""
    draw = random.Random(seed)
    with open(path, "w", encoding="ascii") as out:
        for _ in range(rows):
            a, b, c = (draw.randrange(VALUES) for _ in range(3))
            label = int(draw.random() < (0.9 if a % 2 == b % 2 else 0.1))
            out.write(f"{label} {a}:1 {VALUES + b}:1 {2 * VALUES + c}:1\n")


def logloss(output):
    return float(re.search(r"logloss +([0-9.]+)", output)[1])


def pids_of(program, run_dir, role):
    """The processes of a job."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = pathlib.Path(path).read_bytes().split(b"\0")
        except OSError:  # it has just ended
            continue
        is_ours = any(str(run_dir).encode() in word for word in words)
        if is_ours and os.path.basename(words[0]) == program.encode() and role.encode() in words:
            found.append(int(path.split("/")[2]))
    return found


class FmJobTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        for part in range(3):
            write_rows(cls.folder / f"train-{part}.libsvm", part, 4000)
        write_rows(cls.folder / "test.libsvm", 9, 3000)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def words(self, name, *more):
        return ["--model=fm", f"--train={self.folder}/train-*.libsvm", f"--num_features={3 * VALUES}", "--epochs=4",
                "--learning_rate=0.2", f"--run_dir={self.folder / name}", "--sample_ms=0", *more]

    def train(self, name, topology, *more, mode="sync", status=0):
        return run(command(topology, mode, self.words(name, *more)), status)

    def score(self, name, model="model/model.bin"):
        return logloss(run([str(BIN / "millrace-predict"), f"--model={self.folder / name / model}", "--metrics",
                            "--out=/dev/null", str(self.folder / "test.libsvm")]))

    def model(self, name):
        return (self.folder / name / "model/model.bin").read_bytes()

    def numbers(self, name):
        """The numbers of a text model by key."""
        lines = (self.folder / name / "model/model.txt").read_text().splitlines()
        cells = (line.split("\t") for line in lines if not line.startswith("#"))
        return {cell[0]: [float(word) for text in cell[1:] for word in text.split()] for cell in cells}

    def assert_close(self, found, expected):
        a, b = self.numbers(found), self.numbers(expected)
        self.assertEqual(a.keys(), b.keys())
        self.assertGreater(len(b), 3 * VALUES - 1)
        for key, numbers in b.items():
            self.assertEqual(len(a[key]), len(numbers))
            for x, y in zip(a[key], numbers):
                self.assertAlmostEqual(x, y, delta=1e-3 * max(1, abs(y)), msg=key)

    def test_sync_gives_one_model_and_that_of_one_process(self):
        for features in (3 * VALUES, 0):
            table = f"--num_features={features}"
            for name in ("first", "second"):
                self.train(f"{name}-{features}", (2, 3), table)
            self.assertEqual(self.model(f"first-{features}"), self.model(f"second-{features}"))
            self.assertLess(self.score(f"first-{features}"), 0.37)
            for rule in ("sgd", "adagrad", "ftrl"):
                more = [table, f"--optimizer={rule}", "--epochs=1", "--model_format=text"]
                self.train(f"alone-{rule}-{features}", None, *more)
                self.train(f"served-{rule}-{features}", (3, 1), *more)
                self.assert_close(f"served-{rule}-{features}", f"alone-{rule}-{features}")

    def test_async_and_ssp_find_the_interactions(self):
        for mode in ("async", "ssp"):
            output = self.train(mode, (2, 2), "--wire_bf16", f"--test={self.folder / 'test.libsvm'}", mode=mode)
            self.assertLess(self.score(mode), 0.38)
            self.assertIn("fm with 8 factors", output)

    def test_a_killed_server_and_a_killed_worker_cost_nothing(self):
        more = ["--epochs=60", "--checkpoint_every=15000"]
        self.train("whole", (2, 2), *more)
        for program, role in (("millrace-ps", "--task_index=1"), ("millrace-lr", "--task_index=1")):
            name = f"killed-{program}"
            words = command((2, 2), "sync", self.words(name, *more))
            manifest = self.folder / name / "checkpoints/manifest"
            with tempfile.TemporaryFile("w+") as out, subprocess.Popen(words, stdout=out, stderr=out) as job:
                end = time.monotonic() + 60
                while not (manifest.exists() and "checkpoint" in manifest.read_text(errors="replace")):
                    self.assertIsNone(job.poll())
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.002)
                pids = pids_of(program, self.folder / name, role)
                self.assertEqual(len(pids), 1, f"{program} {pids}")
                os.kill(pids[0], signal.SIGKILL)
                status = job.wait(timeout=100)
                out.seek(0)
                self.assertEqual(status, 0, out.read())
            self.assertEqual(self.model(name), self.model("whole"), program)

    def test_a_checkpoint_of_any_topology_resumes_any_other(self):
        more = ["--epochs=2", "--model_format=text"]
        self.train("uninterrupted", None, *more)
        stop = 3000
        for i, topology in enumerate((None, (2, 1), (1, 1), None, (3, 1))):
            resume = ["--resume"] if i > 0 else []
            limit = [f"--max_examples={stop * (i + 1)}"] if i < 4 else []
            output = self.train("chain", topology, *more, *resume, *limit)
            self.assertEqual("resumed   from" in output, i > 0)
        self.assert_close("chain", "uninterrupted")
        before = {p: p.read_bytes() for p in sorted((self.folder / "chain").rglob("*")) if p.is_file()}
        output = self.train("chain", (2, 2), *more, "--resume", "--factors=4", status=2)
        self.assertIn("this run has fm with 4 factors, the checkpoint fm with 8 factors", output)
        after = {p: p.read_bytes() for p in sorted((self.folder / "chain/checkpoints").rglob("*")) if p.is_file()}
        for path, content in after.items():
            if path.name != "manifest":  # the start of a run counts its epoch
                self.assertEqual(before[path], content, path)
        # Other numbers of workers, too.
        for i, topology in enumerate(((2, 3), (3, 2), None, (1, 3))):
            limit = [f"--max_examples={12000 * (i + 1)}"] if i < 3 else []
            self.train("wide", topology, *(["--resume"] if i > 0 else []), *limit)
        self.assertLess(self.score("wide"), 0.38)

    def test_continues_and_starts_warm(self):
        test = f"--test={self.folder / 'test.libsvm'}"
        self.train("day1", (2, 2), "--epochs=2", "--factors=12")
        words = [word for word in self.words("day2", test) if word != "--model=fm"]
        output = run(command((1, 3), "sync", [*words, f"--continue={self.folder / 'day1'}"]))
        self.assertIn("fm with 12 factors", output)
        self.assertLess(self.score("day2"), 0.38)
        self.train("linear", None, "--model=lr")
        self.train("warm", (2, 2), f"--model_in={self.folder / 'linear'}")
        self.assertLess(self.score("warm"), 0.38)
        # The model that is loaded is the one that is saved.
        self.train("same", (2, 2), f"--model_in={self.folder / 'warm'}", "--max_examples=1", "--learning_rate=1e-30",
                   "--optimizer=sgd")
        self.assertAlmostEqual(self.score("same"), self.score("warm"), places=6)

    def test_evaluates_the_model_that_it_saves(self):
        self.train("best", (2, 2), f"--test={self.folder / 'test.libsvm'}", "--eval_every=12000", "--save_best=logloss")
        csv = (self.folder / "best/metrics.csv").read_text().splitlines()
        at = csv[0].split(",").index("logloss")
        losses = [float(line.split(",")[at]) for line in csv[1:]]
        self.assertAlmostEqual(losses[-1], self.score("best"), places=5)
        self.assertAlmostEqual(min(losses), self.score("best", "model/best.bin"), places=5)
        self.assertLess(losses[-1], 0.37)

    def test_measured_bytes_are_the_predicted_ones(self):
        for more in ([], ["--wire_bf16"]):
            output = self.train("bytes", (2, 2), "--factors=16", "--overwrite", *more)
            self.assertRegex(output, r"wire +sent +predicted")
            self.assertNotIn("differ from the prediction", output)


if __name__ == "__main__":
    unittest.main()
