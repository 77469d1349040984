#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Factorization machines, field-aware ones too, from the command line: quality, kill and resume, scores, and clear
errors.

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


def kill_and_resume(words):
    """Kills the run with SIGKILL every 0.15 s, up to eight times, and starts it again until it ends."""
    kills = 0
    while True:
        with subprocess.Popen([str(BIN / "millrace-lr"), *map(str, words)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            until = time.monotonic() + 0.15
            while process.poll() is None and time.monotonic() < until:
                time.sleep(0.01)
            if process.poll() is None and kills < 8:
                process.send_signal(signal.SIGKILL)
                kills += 1
                continue
            if process.wait() != 0:
                raise AssertionError(f"{words}: status {process.returncode}")
            break
    if kills == 0:
        raise AssertionError(f"{words}: ended before it could be killed")


def write_ffm_rows(libsvm, path):
    """The same rows as libffm text: column 0, 1, 2 is the field."""
    with open(libsvm, encoding="ascii") as lines, open(path, "w", encoding="ascii") as out:
        for line in lines:
            label, *entries = line.split()
            out.write(" ".join([label, *(f"{field}:{entry}" for field, entry in enumerate(entries))]) + "\n")


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
            kill_and_resume(self.words(name, *more, "--resume"))
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
                (["--model=lr", "--factors=4"], "it belongs to --model=fm or ffm, found --model=lr"),
                ([f"--model_in={wide}", "--factors=4"], "expected a model of kind fm with 4 factors"),
                ([f"--model_in={wide}", "--model=lr"], "expected a model of kind lr"),
                ([f"--continue={wide}", "--factors=4"], "the earlier one fm with 8 factors"),
                ([f"--continue={wide}", "--model=lr"], "the earlier one fm with 8 factors"),
                ([f"--run_dir={wide}", "--resume", "--factors=4"], "the checkpoint fm with 8 factors"),
                ([f"--run_dir={wide}", "--resume", "--model=lr"], "the checkpoint fm with 8 factors")):
            output = run("millrace-lr", *self.words("refused", *flags), status=2)
            self.assertIn(message, output)
        self.assertEqual(before, {p: p.read_bytes() for p in sorted(wide.rglob("*")) if p.is_file()})


class FfmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        for name, seed, rows in (("train", 1, 12000), ("test", 2, 3000)):
            write_rows(cls.folder / f"{name}.libsvm", seed, rows)
            write_ffm_rows(cls.folder / f"{name}.libsvm", cls.folder / f"{name}.ffm")
            run("millrace-records", "convert", "--format=libffm", f"--out={cls.folder / name}-records",
                cls.folder / f"{name}.ffm")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def words(self, name, *more, train="train.ffm"):
        return ["--model=ffm", f"--train={self.folder / train}", f"--num_features={3 * VALUES}", "--num_fields=3",
                "--epochs=4", "--learning_rate=0.2", f"--run_dir={self.folder / name}", "--sample_ms=0", *more]

    def predict(self, name, *more, test="test.ffm"):
        return run("millrace-predict", f"--model={self.folder / name}", *more, self.folder / test)

    def test_finds_what_no_linear_model_sees_in_every_format(self):
        run("millrace-lr", *self.words("ffm", f"--test={self.folder / 'test.ffm'}"))
        measured = logloss(self.predict("ffm", "--metrics", "--out=/dev/null"))
        self.assertLess(measured, 0.36)
        csv = (self.folder / "ffm/metrics.csv").read_text().splitlines()
        self.assertAlmostEqual(float(csv[-1].split(",")[csv[0].split(",").index("logloss")]), measured, places=5)
        self.assertIn("ffm with 4 factors for each of 3 fields, 61 weights", run("millrace-predict", f"--model={self.folder / 'ffm'}", "--top=3"))
        explained = self.predict("ffm", "--explain=3")
        self.assertRegex(explained.splitlines()[0], r"\t\d+ \* \d+ \+?-?[0-9.]+")
        # The same rows as TFRecords in another order, with a list of fields: the same scores, and the same quality.
        scores = self.predict("ffm")
        self.assertEqual(sorted(self.predict("ffm", test="test-records/*").split()), sorted(scores.split()))
        run("millrace-lr", *self.words("records", train="train-records/*"))
        self.assertLess(logloss(self.predict("records", "--metrics", "--out=/dev/null", test="test-records/*")), 0.36)
        for model_format in ("text", "npy"):
            run("millrace-lr", *self.words(model_format, f"--model_format={model_format}",
                                           f"--model_out={self.folder / model_format}.out"))
        text = self.folder / "text.out"
        self.assertEqual(run("millrace-predict", f"--model={text}", self.folder / "test.ffm"), scores)
        run("millrace-predict", "export", f"--model={self.folder / 'ffm'}", f"--out={self.folder / 'ffm.serving'}")

    def test_fields_of_a_feature_spec_have_names(self):
        for name in ("train", "test"):
            with open(self.folder / f"{name}.ffm", encoding="ascii") as lines, \
                    open(self.folder / f"{name}.csv", "w", encoding="ascii") as out:
                out.write("click,a,b,c\n")
                for line in lines:
                    label, *entries = line.split()
                    out.write(",".join([label, *("v" + entry.split(":")[1] for entry in entries)]) + "\n")
        (self.folder / "spec.json").write_text(
            '{"label": "click", "hash_bits": 12, "fields": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}')
        words = [word for word in self.words("named", f"--features={self.folder / 'spec.json'}", train="train.csv")
                 if not word.startswith("--num_f")]
        run("millrace-lr", *words)
        self.assertLess(logloss(self.predict("named", "--metrics", "--out=/dev/null", test="test.csv")), 0.36)
        explained = self.predict("named", "--explain=2", test="test.csv")
        self.assertRegex(explained.splitlines()[0], r"\t[abc]=v\d+ \* [abc]=v\d+ \+?-?[0-9.]+")

    def test_a_killed_run_resumes_bit_for_bit_and_a_new_run_continues(self):
        more = ["--epochs=40", "--num_features=0", "--checkpoint_every=2000"]
        run("millrace-lr", *self.words("whole", *more))
        kill_and_resume(self.words("killed", *more, "--resume"))
        self.assertEqual((self.folder / "killed/model/model.bin").read_bytes(),
                         (self.folder / "whole/model/model.bin").read_bytes())
        continued = ["--train", self.folder / "train.ffm", f"--continue={self.folder / 'whole'}",
                     f"--run_dir={self.folder / 'next'}", "--sample_ms=0"]
        self.assertIn("ffm with 4 factors for each of 3 fields", run("millrace-lr", *continued))
        run("millrace-lr", f"--train={self.folder / 'train.libsvm'}", f"--num_features={3 * VALUES}",
            f"--model_out={self.folder / 'lr.bin'}")
        run("millrace-lr", *self.words("warm", f"--model_in={self.folder / 'lr.bin'}"))
        self.assertLess(logloss(self.predict("warm", "--metrics", "--out=/dev/null")), 0.36)

    def test_bad_flags_rows_and_models_are_clear_errors(self):
        run("millrace-lr", *self.words("kept"))
        kept = self.folder / "kept"
        before = {p: p.read_bytes() for p in sorted(kept.rglob("*")) if p.is_file()}
        without = [word for word in self.words("refused") if word != "--num_fields=3"]
        (self.folder / "missing.ffm").write_text("1 0:1:1 1:2\n")
        for words, message in (
                (self.words("refused", "--factors=0"), "expected a multiple of 4 from 4 to 64, found 0"),
                (self.words("refused", "--num_fields=2000"), "fields: expected a number from 1 to 1024"),
                (without, "num_fields: expected the number of fields of the libffm rows, found 0"),
                (self.words("refused", "--model=fm"), "it belongs to --model=ffm, found --model=fm"),
                (without[:1] + [f"--train={self.folder / 'train.libsvm'}"] + without[2:], "this input has no fields"),
                (self.words("kept", "--resume", "--num_fields=4"), "the checkpoint ffm with 4 factors for each of 3"),
                (self.words("refused", f"--continue={kept}", "--num_fields=4"), "the earlier one ffm with 4 factors"),
                (self.words("refused", f"--model_in={kept}", "--factors=8"), "expected a model of kind ffm with 8")):
            output = run("millrace-lr", *words, status=2)
            self.assertIn(message, output)
        for words, message in (
                (self.words("refused", "--num_fields=2"),
                 "train.ffm:1: offset 0: field: expected fields from 0 to below num_fields = 2, found 2"),
                (self.words("missing", train="missing.ffm"), "missing.ffm:1")):
            self.assertIn(message, run("millrace-lr", *words, status=1))
        self.assertEqual(before, {p: p.read_bytes() for p in sorted(kept.rglob("*")) if p.is_file()})
        output = run("millrace-predict", f"--model={kept}", self.folder / "test.libsvm", status=2)
        self.assertIn("this input has no fields", output)


if __name__ == "__main__":
    unittest.main()
