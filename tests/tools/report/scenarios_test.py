#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs with a bottleneck on purpose, and the diagnosis of each: scenarios_test.py BIN_DIR HELPER_DIR

The named bottleneck must be right. Each predicted speedup ("at most x times as fast") is compared with runs without the
obstacle, before and after the run with it, and must be within 20 % in one of four tries. A busy machine disturbs that: runs
without the obstacle differ from each other, and other processes use CPU time; both are measured. On a busy machine, or if
the best of the four tries is within a factor of 1.5, the comparison is skipped and prints the measurements. A wrong
bottleneck is a failure at once, unless other processes used CPU time, which can starve the input threads. Then the run is
repeated, and it is a failure in the end unless other processes kept half of the machine busy all the time.
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
TOLERANCE = 0.2  # of the predicted speedup
NEAR = 1.5  # times: possible on hyperthreads, and where a hypervisor allocates memory late
TRIES = 4
MISNAMED_AT_MOST = 12  # times, and only while other processes keep the machine busy
STEADY = 1.2  # times: if runs without the obstacle agree this well, the machine is not busy
OTHERS_ALLOWED = 0.3  # cores that other processes use on a machine that is not busy


def run(*words, preload=None):
    environment = dict(os.environ, **({"LD_PRELOAD": str(preload)} if preload else {}))
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True, env=environment)


def diagnosis_of(run_dir):
    return json.loads(run(f"{BIN}/millrace-report", run_dir, "--json").stdout)


def total_of(diagnosis):
    return max(worker["total_s"] for worker in diagnosis["workers"])


def busy_seconds():
    """CPU time of the whole machine, and of this test's processes that have exited."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK"), own.ru_utime + own.ru_stime


class Miss(Exception):
    """A predicted speedup outside the tolerance. `free`: seconds of the runs without the obstacle."""

    def __init__(self, message, ratio, free):
        super().__init__(message)
        self.factor, self.free = max(ratio, 1 / ratio), free


def others_busy(begin, then):
    """Cores that other processes kept busy since `begin`, when busy_seconds() was `then`."""
    machine, own = (now - before for now, before in zip(busy_seconds(), then))
    return (machine - own) / (time.monotonic() - begin)


def repeated(test):
    """Runs `test` until it passes, and decides between failure and skip if it does not."""
    free, others, texts, factors, misnamed = [], [], [], [], 0
    while len(texts) - misnamed < TRIES:
        begin, then = time.monotonic(), busy_seconds()
        try:
            return test()
        except (Miss, AssertionError) as error:
            others.append(others_busy(begin, then))
            texts.append(f"{error} (others keep {others[-1]:.2f} cores busy)")
            misnamed += not isinstance(error, Miss)
            if not isinstance(error, Miss) and others[-1] <= OTHERS_ALLOWED:
                raise
            if misnamed == MISNAMED_AT_MOST:
                if min(others) < os.cpu_count() / 2:
                    raise
                raise unittest.SkipTest(f"others keep {min(others):.2f} to {max(others):.2f} cores busy: {error}") from error
            if isinstance(error, Miss):
                free += error.free
                factors.append(error.factor)
            print("again:", texts[-1], file=sys.stderr)
    if min(factors) < NEAR or max(free) > STEADY * min(free) or min(others) > OTHERS_ALLOWED:
        raise unittest.SkipTest(f"a predicted speedup is {min(factors):.2f} times off at best: runs without the obstacle took "
                                f"{min(free):.2f} to {max(free):.2f} s, others kept {min(others):.2f} to {max(others):.2f} cores busy; "
                                + "; ".join(texts))
    raise AssertionError("; ".join(texts))


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
        return diagnosis_of(run_dir)

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

    def compare(self, what, diagnosis, total, free):
        """`free`: seconds of runs without the obstacle."""
        really = total * len(free) / sum(free)
        predicted = diagnosis["speedup_without"]
        print(f"{what}: predicted {predicted:.2f}, measured {really:.2f}: {diagnosis['sentence']}")
        if not 1 - TOLERANCE < predicted / really < 1 + TOLERANCE:
            raise Miss(f"{what}: predicted {predicted:.2f}, measured {really:.2f}", predicted / really, free)

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
        return diagnosis_of(run_dir)

    def compare_jobs(self, what, bottleneck, flags, obstacles, straggler=None):
        """`obstacles`: from the diagnosis of a run without any, those of the run with them."""
        flags = (*flags, "--threads=1", f"--epochs={EPOCHS}")
        free = self.job("free", *flags)
        slow = self.job("slow", *flags, **obstacles(free))
        self.assertEqual(slow["bottleneck"], bottleneck, slow["sentence"])
        if straggler:
            self.assertEqual(slow["straggler"], straggler, slow["sentence"])
        again = self.job("again", *flags)
        self.compare(what, slow, total_of(slow), [total_of(free), total_of(again)])

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

        repeated(lambda: self.compare_jobs("straggler", "barrier", ("sync", 3, "--batch_size=500"), obstacles, "worker-2"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
