#!/usr/bin/env python3
"""Runs that are bound by one thing on purpose, and the verdict on each: scenarios_test.py BIN_DIR HELPER_DIR

Each what-if ("at most x times as fast") is compared with a run that really lacks the obstacle. Other work on the
machine disturbs; what fails is repeated, must hold once in five times, and is skipped where others keep the machine busy.
"""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cluster import Job  # noqa: E402

BIN, HELPERS = sys.argv[1], sys.argv[2]
FEATURES = 33762578
ROWS = 400000
TOLERANCE = 0.2  # of the what-if
OTHERS_ALLOWED = 0.3  # cores


def run(*words, preload=None):
    environment = dict(os.environ, **({"LD_PRELOAD": str(preload)} if preload else {}))
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True, env=environment)


def verdict_of(run_dir):
    return json.loads(run(f"{BIN}/millrace-report", run_dir, "--json").stdout)


def total_of(verdict):
    return max(worker["total_s"] for worker in verdict["workers"])


def busy_seconds():
    """CPU time of the whole machine, and of this test's processes that have ended."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK"), own.ru_utime + own.ru_stime


def repeated(test, tries=5):
    """Runs `test` until it holds. A machine that others keep busy proves nothing: the test is then skipped."""
    others = 0
    for attempt in range(tries):
        begin, (machine, own) = time.monotonic(), busy_seconds()
        try:
            return test()
        except AssertionError as error:
            machine_now, own_now = busy_seconds()
            others = max(others, (machine_now - machine - own_now + own) / (time.monotonic() - begin))
            if attempt == tries - 1:
                if others > OTHERS_ALLOWED:
                    raise unittest.SkipTest(f"other work keeps {others:.1f} cores busy: {error}") from error
                raise
            print("again:", error, file=sys.stderr)
    return None


class Scenarios(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="millrace-scenarios-")
        cls.root = pathlib.Path(cls.folder.name)
        run(f"{BIN}/millrace-records", "synth", f"--rows={ROWS}", "--test_rows=1000", f"--num_features={FEATURES}",
            "--shards=4", f"--out={cls.root}/data")
        cls.files = sorted((cls.root / "data").glob("train-*"))
        cls.bytes = sum(file.stat().st_size for file in cls.files)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def train(self, name, *flags, preload=None):
        run_dir = self.root / name
        files = ",".join(str(file) for file in self.files)
        run(f"{BIN}/millrace-lr", f"--train={files}", f"--num_features={FEATURES}", "--profile", "--overwrite",
            f"--run_dir={run_dir}", "--model_out=/dev/null", *flags, preload=preload)
        return verdict_of(run_dir)

    def slow_disk(self, bytes_per_s):
        library = self.root / "libslow_disk.so"
        shutil.copy(f"{HELPERS}/libslow_disk.so", library)
        (self.root / "slow_disk.rate").write_text(f"{bytes_per_s:.0f}\n")
        return library

    def slow_locks(self, microseconds):
        library = self.root / "libslow_locks.so"
        shutil.copy(f"{HELPERS}/libslow_locks.so", library)
        (self.root / "slow_locks.us").write_text(f"{microseconds}\n")
        return library

    def compare(self, what, verdict, really, at_most_only=False):
        """`at_most_only`: processes of a job share two cores, which may keep the run without the obstacle from being as
        fast as it could be; then only the claim "at most" is judged."""
        print(f"{what}: what-if {verdict['speedup_without']:.2f}, really {really:.2f}: {verdict['sentence']}")
        self.assertGreater(verdict["speedup_without"] / really, 1 - TOLERANCE)
        if not at_most_only:
            self.assertLess(verdict["speedup_without"] / really, 1 + TOLERANCE)

    def test_slow_disk_is_input_bound(self):
        def once():
            free = total_of(self.train("free", "--epochs=4"))
            slow = self.train("slow", "--epochs=4", preload=self.slow_disk(4 * self.bytes / (2.5 * free)))
            self.assertEqual(slow["bottleneck"], "input", slow["sentence"])
            self.assertIn("the input threads read", slow["sentence"])
            self.compare("input", slow, total_of(slow) / free)

        repeated(once)

    def test_heavy_computing_is_compute_bound(self):
        def once():
            busy = self.train("busy", "--threads=1", "--epochs=6", "--cache=1000")
            self.assertEqual(busy["bottleneck"], "compute", busy["sentence"])
            drained = run(f"{HELPERS}/drain_queue", 100, FEATURES, 1, 6, 1000, *self.files).stdout.split()
            self.assertEqual(int(drained[1]), 6 * ROWS)
            self.compare("compute", busy, total_of(busy) / float(drained[0]))

        repeated(once)


    def job(self, name, mode, workers, *flags, **obstacles):
        run_dir = self.root / name
        shutil.rmtree(run_dir, ignore_errors=True)
        files = ",".join(str(file) for file in self.files)
        Job(BIN, run_dir, mode, workers, [f"--train={files}", f"--num_features={FEATURES}", *flags]).run(**obstacles)
        return verdict_of(run_dir)

    def test_slow_network_is_network_bound(self):
        def once():
            flags = ("async", 1, "--batch_size=2000", "--threads=1")
            free = self.job("direct", *flags)
            sent = sum(float(w["sent_bytes"]) + float(w["received_bytes"]) for w in free["workers"])
            slow = self.job("relayed", *flags, network_bytes_per_s=sent / 2 / (3 * total_of(free)))
            self.assertEqual(slow["bottleneck"], "network", slow["sentence"])
            self.compare("network", slow, total_of(slow) / total_of(free), at_most_only=True)

        repeated(once)

    def test_slow_server_is_server_bound(self):
        def once():
            flags = ("sync", 2, "--batch_size=1000", "--threads=1")
            free = self.job("quick", *flags)
            slow = self.job("locked", *flags, preload={"ps-0": self.slow_locks(2000)})
            self.assertEqual(slow["bottleneck"], "server", slow["sentence"])
            self.compare("server", slow, total_of(slow) / total_of(free), at_most_only=True)

        repeated(once)

    def test_slow_worker_is_named_as_the_straggler(self):
        def once():
            flags = ("sync", 3, "--batch_size=500", "--threads=1")
            free = self.job("even", *flags)
            rate = self.bytes / 3 / (3 * total_of(free))
            slow = self.job("uneven", *flags, preload={"worker-2": self.slow_disk(rate)})
            self.assertEqual(slow["bottleneck"], "barrier", slow["sentence"])
            self.assertEqual(slow["straggler"], "worker-2")
            self.compare("straggler", slow, total_of(slow) / total_of(free), at_most_only=True)

        repeated(once)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
