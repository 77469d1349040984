#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sweeps from the command line: models and metrics of single runs, the table, the winner's folder, and refusals.

Usage: sweep_test.py BIN_DIR
"""
import csv
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
FEATURES = 33762578


def run(program, *words, status=0):
    done = subprocess.run([str(BIN / program), *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)
    if done.returncode != status:
        raise AssertionError(f"{program} {words}: status {done.returncode}, expected {status}: "
                             f"{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def table(path):
    with open(path, encoding="ascii") as lines:
        return list(csv.DictReader(lines))


def metrics(folder):
    """Without the columns that depend on time."""
    return [{name: cell for name, cell in row.items() if name not in ("seconds", "examples_per_s")}
            for row in table(folder / "metrics.csv")]


class SweepTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        run("millrace-records", "synth", "--rows=12000", "--test_rows=3000", f"--num_features={FEATURES // 100}",
            f"--out={cls.folder / 'data'}")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def words(self, name, *more):
        return [f"--train={self.folder / 'data' / 'train-*'}", f"--test={self.folder / 'data' / 'test-*'}",
                f"--num_features={FEATURES // 100}", f"--run_dir={self.folder / name}", "--sample_ms=0", *more]

    def test_fields_with_numbers_of_their_own_are_refused(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            rows = folder / "rows.csv"
            rows.write_text("label,user\n" + "".join(f"{i % 2},u{i % 7}\n" for i in range(200)), encoding="ascii")
            spec = folder / "spec.json"
            for rate, status in (("", 0), (', "rate": 0.5', 2)):
                spec.write_text('{"label": {"column": "label"}, "hash_bits": 16, "fields": '
                                '[{"name": "user", "rule": "hash"%s}]}' % rate, encoding="ascii")
                out = run("millrace-lr", f"--train={rows}", f"--features={spec}", "--sweep=l1=0,1", status=status)
            self.assertIn("an l1, l2 or rate of their own", out)

    def test_each_configuration_equals_its_own_run(self):
        flags = ["--eval_every=5000"]
        out = run("millrace-lr", *self.words("sweep", "--sweep=learning_rate=auto,0.05,0.4;l1=0,1", "--sweep_models",
                                             *flags))
        self.assertIn("6 configurations, ftrl, slots interleaved", out)
        sweep = self.folder / "sweep"
        rows = table(sweep / "sweep.csv")
        self.assertEqual([row["config"] for row in rows], list("123456"))
        for number, (rate, l1) in enumerate([(r, p) for r in ("auto", "0.05", "0.4") for p in ("0", "1")], 1):
            own = self.folder / f"own-{number}"
            run("millrace-lr", *self.words(own.name, f"--learning_rate={rate}", f"--l1={l1}", *flags))
            swept = sweep / "sweep" / str(number)
            self.assertEqual(digest(swept / "model.bin"), digest(own / "model" / "model.bin"), number)
            self.assertEqual(metrics(swept), metrics(own), number)
            row = rows[number - 1]
            self.assertEqual((row["end"], row["l1"]), ("done", l1))
            for name in ("auc", "logloss", "calibration"):
                self.assertEqual(row[name], metrics(own)[-1][name])
        self.check_winner(sweep, rows, out)

    def check_winner(self, sweep, rows, out):
        best = [row for row in rows if row["result"] == "best"]
        self.assertEqual(len(best), 1)
        self.assertEqual(float(best[0]["logloss"]), min(float(row["logloss"]) for row in rows))
        self.assertIn(f"best      --learning_rate={best[0]['learning_rate']} --l1={best[0]['l1']}\n", out)
        own = self.folder / f"own-{best[0]['config']}"
        self.assertEqual(digest(sweep / "model" / "model.bin"), digest(own / "model" / "model.bin"))
        self.assertEqual(metrics(sweep), metrics(own))
        for row in rows:
            for metric in ("auc", "logloss"):
                low, difference, high = (float(row[f"{metric}_difference{end}"]) for end in ("_low", "", "_high"))
                self.assertLessEqual(low, difference)
                self.assertLessEqual(difference, high)
                self.assertAlmostEqual(difference, float(row[metric]) - float(best[0][metric]), places=9)
            self.assertEqual(row["result"] == "worse", low > 0)
        # Its state is there, too.
        for folder in (sweep, own):
            run("millrace-lr", *self.words(f"next-{folder.name}", f"--continue={folder}"))
        models = [digest(self.folder / f"next-{folder.name}" / "model" / "model.bin") for folder in (sweep, own)]
        self.assertEqual(*models)

    def test_halving_is_deterministic_and_keeps_the_rest_exact(self):
        tables = []
        for name in ("half-1", "half-2"):
            run("millrace-lr", *self.words(name, "--sweep=random:8", "--sweep_halving=2000"))
            tables.append((self.folder / name / "sweep.csv").read_text())
        self.assertEqual(*tables)
        rows = table(self.folder / "half-1" / "sweep.csv")
        examples = sorted(int(row["examples"]) for row in rows)
        self.assertEqual(examples, [2000] * 4 + [4000] * 2 + [8000, 12000])
        best = next(row for row in rows if row["result"] == "best")
        run("millrace-lr", *self.words("half-own", f"--learning_rate={best['learning_rate']}", f"--l1={best['l1']}"))
        self.assertEqual(digest(self.folder / "half-1" / "model" / "model.bin"),
                         digest(self.folder / "half-own" / "model" / "model.bin"))

    def test_a_sweep_continues_from_an_earlier_run(self):
        run("millrace-lr", *self.words("day-1", "--l1=0.5"))
        earlier = f"--continue={self.folder / 'day-1'}"
        out = run("millrace-lr", *self.words("day-2", earlier, "--sweep=l1=0,0.5,1", "--sweep_models"))
        self.assertIn("a table for each", out)
        for number, l1 in enumerate(("0", "0.5", "1"), 1):
            own = self.folder / f"day-2-{l1}"
            run("millrace-lr", *self.words(own.name, earlier, f"--l1={l1}"))
            self.assertEqual(digest(self.folder / "day-2" / "sweep" / str(number) / "model.bin"),
                             digest(own / "model" / "model.bin"))
            self.assertEqual(metrics(self.folder / "day-2" / "sweep" / str(number)), metrics(own))
        out = run("millrace-lr", *self.words("refused", earlier, "--sweep=learning_rate=auto,1"), status=2)
        self.assertIn("a run with --continue tries no rates", out)

    def test_overwrite_removes_an_earlier_sweep(self):
        words = self.words("again", "--max_examples=1000")
        run("millrace-lr", *words, "--sweep=l1=0,1,2", "--sweep_models")
        self.assertIn("holds an earlier run", run("millrace-lr", *words, status=2))
        run("millrace-lr", *words, "--overwrite")
        self.assertFalse((self.folder / "again" / "sweep.csv").exists())
        self.assertFalse((self.folder / "again" / "sweep").exists())

    def test_what_a_sweep_cannot_do_is_refused(self):
        sweep = "--sweep=l1=0,1"
        for words in (["--resume"], ["--checkpoint_every=1000"], ["--save_best=auc", "--eval_every=1000"],
                      ["--hogwild=2", "--optimizer=sgd"]):
            out = run("millrace-lr", *self.words("refused", sweep, *words), status=2)
            self.assertIn(words[0].split("=")[0], out)
            self.assertIn("--sweep", out)
        out = run("millrace-lr", *self.words("refused", sweep, "--mode=sync", "--job_name=worker", "--ps_hosts=a:1",
                                             "--worker_hosts=a"), status=2)
        self.assertIn("--sweep has no effect: it belongs to --mode=single, found --mode=sync", out)
        out = run("millrace-lr", *self.words("refused", sweep, "--l1=2"), status=2)
        self.assertIn("--l1 and --sweep=l1=0,1: expected it in one of them", out)
        out = run("millrace-lr", *self.words("refused", "--sweep=rate=1,2"), status=2)
        self.assertIn("expected one of learning_rate, l1,", out)
        out = run("millrace-lr", *self.words("refused", "--sweep=adagrad_initial=0,1"), status=2)
        self.assertIn("adagrad_initial belongs to --optimizer=adagrad, found ftrl", out)
        self.assertFalse((self.folder / "refused").exists())

    def test_blocked_input_does_not_delay_the_end(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        words = ["--format=tfrecord", f"--train={pipe}", "--num_features=10", "--sweep=l1=0,1"]
        with subprocess.Popen([BIN / "millrace-lr", *words], stdout=subprocess.PIPE, text=True) as process:
            while "machine" not in process.stdout.readline():
                pass
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=20), 130)

    def test_an_interrupted_sweep_says_that_nothing_is_kept(self):
        words = self.words("stopped", "--sweep=l1=0,1", "--epochs=100000")
        with subprocess.Popen([BIN / "millrace-lr", *words], stdout=subprocess.PIPE, text=True) as process:
            while "machine" not in process.stdout.readline():
                pass
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            out = process.stdout.read()
            self.assertEqual(process.wait(), 130)
        self.assertIn("a sweep has no checkpoints: nothing was kept", out)


if __name__ == "__main__":
    unittest.main()
