#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Factorization machines from the command line: quality, kill and resume, scores, and clear errors.

Usage: fm_test.py BIN_DIR
"""
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


def run(program, *words, status=0):
    done = subprocess.run([str(BIN / program), *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)
    if done.returncode != status:
        raise AssertionError(f"{program} {words}: status {done.returncode}, expected {status}: "
                             f"{done.stdout}{done.stderr}")
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


class FmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        write_rows(cls.folder / "train.libsvm", 1, 12000)
        write_rows(cls.folder / "test.libsvm", 2, 3000)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def words(self, name, *more):
        return ["--model=fm", f"--train={self.folder / 'train.libsvm'}", f"--num_features={3 * VALUES}",
                "--epochs=4", "--learning_rate=0.2", f"--run_dir={self.folder / name}", "--sample_ms=0", *more]

    def score(self, name, *more):
        return run("millrace-predict", f"--model={self.folder / name}", "--metrics", "--out=/dev/null", *more,
                   self.folder / "test.libsvm")

    def test_finds_what_no_linear_model_sees(self):
        test = f"--test={self.folder / 'test.libsvm'}"
        run("millrace-lr", *self.words("fm", test))
        self.assertLess(logloss(self.score("fm")), 0.36)
        run("millrace-lr", *self.words("lr", test, "--model=lr"))
        self.assertGreater(logloss(self.score("lr")), 0.68)
        csv = (self.folder / "fm/metrics.csv").read_text().splitlines()
        at = csv[0].split(",").index("logloss")
        self.assertAlmostEqual(float(csv[-1].split(",")[at]), logloss(self.score("fm")), places=5)
        explained = run("millrace-predict", f"--model={self.folder / 'fm'}", "--explain=3",
                        self.folder / "test.libsvm")
        self.assertRegex(explained.splitlines()[0], r"\t\d+ \* \d+ \+?-?[0-9.]+")
        listed = run("millrace-predict", f"--model={self.folder / 'fm'}", "--top=3")
        self.assertIn("fm with 8 factors, 61 weights", listed)

    def test_a_killed_run_resumes_bit_for_bit(self):
        for features in (3 * VALUES, 0):
            more = ["--epochs=60", f"--num_features={features}", "--checkpoint_every=2000"]
            run("millrace-lr", *self.words(f"whole-{features}", *more))
            name = f"killed-{features}"
            words = [str(BIN / "millrace-lr"), *self.words(name, *more, "--resume")]
            kills = 0
            while True:
                with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                    until = time.monotonic() + 0.15
                    while process.poll() is None and time.monotonic() < until:
                        time.sleep(0.01)
                    if process.poll() is not None:
                        self.assertEqual(process.returncode, 0)
                        break
                    if kills == 8:
                        self.assertEqual(process.wait(), 0)
                        break
                    process.send_signal(signal.SIGKILL)
                    kills += 1
            self.assertGreater(kills, 0)
            self.assertEqual((self.folder / name / "model/model.bin").read_bytes(),
                             (self.folder / f"whole-{features}" / "model/model.bin").read_bytes())

    def test_a_new_run_continues_with_kind_and_factors_of_the_earlier_one(self):
        run("millrace-lr", *self.words("day1", "--factors=12", "--epochs=1"))
        words = [word for word in self.words("day2") if word != "--model=fm"]
        output = run("millrace-lr", *words, f"--continue={self.folder / 'day1'}")
        self.assertIn("fm with 12 factors", output)
        self.assertLess(logloss(self.score("day2")), 0.36)

    def test_starts_from_the_weights_of_an_lr(self):
        run("millrace-lr", *self.words("start", "--model=lr"))
        run("millrace-lr", *self.words("warm", f"--model_in={self.folder / 'start'}"))
        self.assertLess(logloss(self.score("warm")), 0.36)

    def test_bad_flags_and_models_are_clear_errors(self):
        run("millrace-lr", *self.words("wide"))
        wide = self.folder / "wide"
        before = {p: p.read_bytes() for p in sorted(wide.rglob("*")) if p.is_file()}
        for flags, message in (
                (["--factors=0"], "expected a multiple of 4 from 4 to 64, found 0"),
                (["--factors=10"], "expected a multiple of 4 from 4 to 64, found 10"),
                (["--factor_init=0"], "expected a number above 0"),
                (["--factor_l2=-1"], "expected a number from 0"),
                (["--model=gbm"], "expected lr, fm or ffm"),
                (["--model=lr", "--factors=4"], "it belongs to --model=fm, found --model=lr"),
                ([f"--model_in={wide}", "--factors=4"], "expected a model of kind fm with 4 factors"),
                ([f"--model_in={wide}", "--model=lr"], "expected a model of kind lr"),
                ([f"--continue={wide}", "--factors=4"], "the earlier one fm with 8 factors"),
                ([f"--continue={wide}", "--model=lr"], "the earlier one fm with 8 factors"),
                ([f"--run_dir={wide}", "--resume", "--factors=4"], "the checkpoint fm with 8 factors"),
                ([f"--run_dir={wide}", "--resume", "--model=lr"], "the checkpoint fm with 8 factors")):
            output = run("millrace-lr", *self.words("refused", *flags), status=2)
            self.assertIn(message, output)
        self.assertEqual(before, {p: p.read_bytes() for p in sorted(wide.rglob("*")) if p.is_file()})


if __name__ == "__main__":
    unittest.main()
