#!/usr/bin/env python3
"""Runs that are bound by one thing on purpose, and the verdict on each: scenarios_test.py BIN_DIR HELPER_DIR

Each what-if ("at most x times as fast") is compared with runs that really lack the obstacle, before and after the one
that has it. Other work on the machine disturbs; what fails is repeated, must hold once in five times, and is skipped where
others keep the machine busy. A what-if that is never within 20 %, but once within a factor of 1.5, is skipped as well: that
much comes from memory that a hypervisor fetches anew, and from cores that share their units.
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
EPOCHS = 2  # of jobs
TOLERANCE = 0.2  # of the what-if
NEAR = 1.5  # times: a miss that may be the machine's
STEADY = 1.2  # times: runs without the obstacle must agree so well
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


class NearMiss(AssertionError):
    """Within a factor of NEAR, or on a machine whose speed changes."""


def repeated(test, tries=5):
    """Runs `test` until it holds. A machine that others keep busy proves nothing: the test is then skipped."""
    others, near = 0, False
    for attempt in range(tries):
        begin, (machine, own) = time.monotonic(), busy_seconds()
        try:
            return test()
        except AssertionError as error:
            machine_now, own_now = busy_seconds()
            near = near or isinstance(error, NearMiss)
            others = max(others, (machine_now - machine - own_now + own) / (time.monotonic() - begin))
            if attempt == tries - 1:
                if others > OTHERS_ALLOWED:
                    raise unittest.SkipTest(f"other work keeps {others:.1f} cores busy: {error}") from error
                if near:
                    raise unittest.SkipTest(f"near, but not within {TOLERANCE:.0%}: {error}") from error
                raise
            print("again:", error, file=sys.stderr)
    return None


class Scenarios(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="millrace-scenarios-")
        cls.root = pathlib.Path(cls.folder.name)
        run(f"{BIN}/millrace-records", "synth", f"--rows={ROWS}", "--test_rows=1000", f"--num_features={FEATURES}",
            "--shards=12", f"--out={cls.root}/data")
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

    def compare(self, what, verdict, total, free):
        """`free`: seconds of runs without the obstacle."""
        really = total * len(free) / sum(free)
        predicted = verdict["speedup_without"]
        print(f"{what}: what-if {predicted:.2f}, really {really:.2f}: {verdict['sentence']}")
        if max(free) > STEADY * min(free):
            raise NearMiss(f"{what}: runs without the obstacle took {free} s")
        ratio = predicted / really
        if 1 - TOLERANCE < ratio < 1 + TOLERANCE:
            return
        miss = NearMiss if 1 / NEAR < ratio < NEAR else AssertionError
        raise miss(f"{what}: what-if {predicted:.2f}, really {really:.2f}")

    def test_slow_disk_is_input_bound(self):
        def once():
            free = [total_of(self.train("free", "--epochs=4"))]
            slow = self.train("slow", "--epochs=4", preload=self.slow_disk(4 * self.bytes / (2.5 * free[0])))
            free.append(total_of(self.train("free", "--epochs=4")))
            self.assertEqual(slow["bottleneck"], "input", slow["sentence"])
            self.assertIn("the input threads read", slow["sentence"])
            self.compare("input", slow, total_of(slow), free)

        repeated(once)

    def test_heavy_computing_is_compute_bound(self):
        def once():
            busy = self.train("busy", "--threads=1", "--epochs=6", "--cache=1000")
            self.assertEqual(busy["bottleneck"], "compute", busy["sentence"])
            free = []
            for _ in range(2):
                drained = run(f"{HELPERS}/drain_queue", 100, FEATURES, 1, 6, 1000, *self.files).stdout.split()
                self.assertEqual(int(drained[1]), 6 * ROWS)
                free.append(float(drained[0]))
            self.compare("compute", busy, total_of(busy), free)

        repeated(once)

    def job(self, name, mode, workers, *flags, **obstacles):
        run_dir = self.root / name
        shutil.rmtree(run_dir, ignore_errors=True)
        files = ",".join(str(file) for file in self.files)
        Job(BIN, run_dir, mode, workers, [f"--train={files}", f"--num_features={FEATURES}", *flags]).run(**obstacles)
        return verdict_of(run_dir)

    def compare_jobs(self, what, bottleneck, flags, obstacles):
        """`obstacles`: from the verdict on a run without any, those of the run that has them."""
        flags = (*flags, "--threads=1", f"--epochs={EPOCHS}")
        free = self.job("free", *flags)
        slow = self.job("slow", *flags, **obstacles(free))
        self.assertEqual(slow["bottleneck"], bottleneck, slow["sentence"])
        again = self.job("again", *flags)
        self.compare(what, slow, total_of(slow), [total_of(free), total_of(again)])
        return slow

    def test_slow_network_is_network_bound(self):
        def obstacles(free):
            sent = sum(float(w["sent_bytes"]) + float(w["received_bytes"]) for w in free["workers"])
            return {"network_bytes_per_s": sent / 2 / (1.5 * total_of(free))}

        repeated(lambda: self.compare_jobs("network", "network", ("async", 1, "--batch_size=2000"), obstacles))

    def test_slow_server_is_server_bound(self):
        def obstacles(_):
            return {"preload": {"ps-0": self.slow_locks(2000)}}

        repeated(lambda: self.compare_jobs("server", "server", ("sync", 2, "--batch_size=1000"), obstacles))

    def test_slow_worker_is_named_as_the_straggler(self):
        def obstacles(free):
            rate = EPOCHS * self.bytes / 3 / (3 * total_of(free))
            return {"preload": {"worker-2": self.slow_disk(rate)}}

        def once():
            slow = self.compare_jobs("straggler", "barrier", ("sync", 3, "--batch_size=500"), obstacles)
            self.assertEqual(slow["straggler"], "worker-2")

        repeated(once)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
