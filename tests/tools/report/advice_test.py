#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows the advice of the diagnosis on real runs: advice_test.py BIN_DIR HELPER_DIR [TEST...]

Runs that evaluate often, write checkpoints often, read gzip, or share the cores with other programs. The cause must be
named, and what the first advice promises must be what happens when it is followed, within 25 %. Tries are repeated and
skipped as in scenarios_test.py, which has the other bottlenecks.
"""
import gzip
import re
import subprocess
import sys
import unittest

import scenarios_test as base

TOLERANCE = 0.25
TEST_ROWS = 60000
LOOPS = 3


class BusyLoops:
    """Other programs that compute all the time."""

    def __enter__(self):
        self.loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOOPS)]

    def __exit__(self, *_):
        for loop in self.loops:
            loop.kill()
            loop.wait()


class Advice(base.Scenarios):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        base.run(f"{base.BIN}/millrace-records", "synth", "--rows=1000", f"--test_rows={TEST_ROWS}",
                 f"--num_features={base.FEATURES}", "--shards=1", f"--out={cls.root}/more")
        cls.test = f"--test={cls.root}/more/test-*"

    def check(self, what, cause, slow, gain, free):
        """`slow`: a diagnosis; `free`: seconds of runs without the cause."""
        self.assertEqual(slow["cause"], cause, slow["sentence"])
        really = base.total_of(slow) * len(free) / sum(free)
        print(f"{what}: predicted {gain:.2f}, measured {really:.2f}: {slow['sentence']}")
        if not 1 - TOLERANCE < gain / really < 1 + TOLERANCE:
            raise base.Miss(f"{what}: predicted {gain:.2f}, measured {really:.2f}", gain / really, free)

    def follow_flag(self, cause, *flags):
        """Runs with these flags, then with the flag that the first advice names."""
        def once():
            slow = self.train("slow", *flags)
            self.assertEqual(slow["cause"], cause, slow["sentence"])
            advice = slow["advice"][0]
            flag = re.match(r"--\w+=\d+", advice["text"]).group(0)
            name = flag.split("=")[0]
            others = [word for word in flags if not word.startswith(name + "=")]
            free = [base.total_of(self.train("free", *others, flag)) for _ in range(2)]
            self.check(f"{cause}, {flag}", cause, slow, advice["gain"], free)

        base.repeated(once)

    def test_frequent_evaluation(self):
        self.follow_flag("evaluation", self.test, "--eval_every=20000")

    def test_frequent_checkpoints(self):
        self.follow_flag("checkpoint", "--checkpoint_every=20000")

    def test_gzip_input(self):
        plain = self.files
        packed = []
        for file in plain:
            packed.append(self.root / (file.name + ".gz"))
            packed[-1].write_bytes(gzip.compress(file.read_bytes(), 1))

        def trained(name, files):
            type(self).files = files
            try:
                return self.train(name, "--epochs=2")
            finally:
                type(self).files = plain

        def once():
            slow = trained("gzip", packed)
            self.assertIn("uncompressed", slow["advice"][0]["text"])
            free = [base.total_of(trained("plain", plain)) for _ in range(2)]
            self.check("gzip", "decompression", slow, slow["advice"][0]["gain"], free)

        base.repeated(once)

    def test_other_programs_on_the_cores(self):
        def once():
            free = [base.total_of(self.train("alone", "--epochs=4"))]
            with BusyLoops():
                slow = self.train("beside", "--epochs=4")
            free.append(base.total_of(self.train("alone", "--epochs=4")))
            self.check("other programs", "other processes", slow, slow["advice"][0]["gain"], free)

        base.repeated(once)


# Those of the base class run in their own test.
for test_name in [name for name in dir(base.Scenarios) if name.startswith("test_")]:
    setattr(Advice, test_name, None)

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
