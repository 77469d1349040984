#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs training jobs under kills, suspended processes and full disks, and checks what must hold.

  tests/soak/soak.py [--minutes=30] [--seed=1] [--bin=build/bin] [--work=FOLDER]

A sync job must end with the model of an undisturbed one, bit for bit, whatever happened to its processes. After
each job no process, temporary file or token may be left, and the launcher must not collect descriptors or memory.
Full disks need root (a small tmpfs); without it they are left out. Exits with 1 after the first violation.
"""

import argparse
import glob
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROWS = 60000
FEATURES = 100000
DISK_MB = 24
TOPOLOGIES = [(1, 2), (2, 3)]  # servers, workers
MAX_FDS = 40  # more than at the start
MAX_RSS_KB = 64 * 1024


class Violation(Exception):
    pass


def processes_of(folder):
    """Processes whose command line names the folder: {pid: words}."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = open(path, "rb").read().decode(errors="replace").split("\0")
        except OSError:
            continue
        pid = int(path.split("/")[2])
        if pid != os.getpid() and any(folder in word for word in words):
            found[pid] = words
    return found


def program_of(words):
    return os.path.basename(words[0])


def model_digest(run):
    with open(os.path.join(run, "model/model.bin"), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


class Soak:
    def __init__(self, args):
        self.args = args
        self.random = random.Random(args.seed)
        self.bin = os.path.abspath(args.bin)
        self.work = args.work or tempfile.mkdtemp(prefix="millrace-soak-")
        self.data = os.path.join(self.work, "data")
        self.expected = {}
        self.counts = {"jobs": 0, "launches": 0, "kills": 0, "suspensions": 0, "launcher kills": 0, "full disks": 0}
        self.most_fds = self.most_rss_kb = 0

    def command(self, topology, run, resume):
        servers, workers = topology
        return [
            f"{self.bin}/millrace-launch", f"--num_ps={servers}", f"--num_workers={workers}", "--restart=1000",
            f"--ps_program={self.bin}/millrace-ps", "--",
            f"{self.bin}/millrace-lr", "--mode=sync", f"--train={self.data}/train-*", f"--test={self.data}/test-*",
            f"--num_features={FEATURES}", "--eval_every=20000", "--checkpoint_every=2000", "--epochs=12", "--sample_ms=0",
            f"--run_dir={run}"] + (["--resume"] if resume else [])

    def prepare(self):
        subprocess.run([f"{self.bin}/millrace-records", "synth", f"--rows={ROWS}", "--test_rows=2000",
                        f"--num_features={FEATURES}", "--shards=4", f"--out={self.data}", "--overwrite"],
                       check=True, stdout=subprocess.DEVNULL)
        for topology in TOPOLOGIES:
            run = os.path.join(self.work, "undisturbed")
            done = subprocess.run(self.command(topology, run, False), capture_output=True, text=True)
            if done.returncode != 0:
                raise Violation(f"an undisturbed job failed:\n{done.stdout}{done.stderr}")
            self.expected[topology] = model_digest(run)
            shutil.rmtree(run)
            print(f"{topology[0]} servers, {topology[1]} workers, undisturbed: {self.expected[topology]}", flush=True)

    def sample(self, launcher):
        try:
            self.most_fds = max(self.most_fds, len(os.listdir(f"/proc/{launcher.pid}/fd")))
            for line in open(f"/proc/{launcher.pid}/status"):
                if line.startswith("VmRSS:"):
                    self.most_rss_kb = max(self.most_rss_kb, int(line.split()[1]))
        except OSError:
            pass  # it has just ended

    def disturb(self, launcher, run):
        """One fault. False if it ended the launcher."""
        victims = [pid for pid, words in processes_of(run).items()
                   if program_of(words) in ("millrace-lr", "millrace-ps")]
        fault = self.random.random()
        try:
            if fault < 0.05:
                self.counts["launcher kills"] += 1
                launcher.kill()
                launcher.wait()
                return False
            if not victims:
                return True
            victim = self.random.choice(victims)
            if fault < 0.6:
                self.counts["kills"] += 1
                os.kill(victim, signal.SIGKILL)
            elif fault < 0.9 or not self.full:
                self.counts["suspensions"] += 1
                os.kill(victim, signal.SIGSTOP)
                time.sleep(self.random.choice([0.1, 0.5, 1, 3, 6]))
                os.kill(victim, signal.SIGCONT)
            else:
                self.counts["full disks"] += 1
                self.fill_disk(run)
        except ProcessLookupError:
            pass
        return True

    def fill_disk(self, run):
        path = os.path.join(os.path.dirname(run), "filler")
        try:
            with open(path, "wb") as file:
                while True:
                    file.write(b"x" * 65536)
                    file.flush()
        except OSError:
            pass
        time.sleep(self.random.choice([0.2, 1, 2]))
        os.remove(path)

    def run_job(self):
        topology = self.random.choice(TOPOLOGIES)
        folder = os.path.join(self.work, "job")
        os.makedirs(folder)
        self.full = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", folder], capture_output=True).returncode == 0
        run = os.path.join(folder, "run")
        faults = self.random.randrange(3, 25)
        log_path = os.path.join(self.work, "log")
        try:
            status = None
            for attempt in range(100):
                self.counts["launches"] += 1
                with open(log_path, "wb") as log:
                    launcher = subprocess.Popen(self.command(topology, run, attempt > 0), stdout=log, stderr=log)
                    while launcher.poll() is None:
                        time.sleep(self.random.uniform(0.05, 0.4))
                        self.sample(launcher)
                        if faults > 0 and launcher.poll() is None:
                            faults -= 1
                            if not self.disturb(launcher, run):
                                break
                status = launcher.wait()
                self.wait_for_no_process(run)
                if status == 0:
                    break
                if faults <= 0 and attempt > 5 and status not in (-9,):
                    raise Violation(f"the job does not go on without faults, status {status}")
            found = model_digest(run)
            if found != self.expected[topology]:
                raise Violation(f"model {found}, expected {self.expected[topology]}")
            left = glob.glob(run + "/**/*.tmp*", recursive=True)
            if left:
                raise Violation(f"temporary files left: {left}")
        except Violation as violation:
            print(open(log_path, errors="replace").read(), file=sys.stderr)
            raise violation
        finally:
            if self.full:
                subprocess.run(["umount", "-l", folder], check=False)
        shutil.rmtree(folder)
        self.counts["jobs"] += 1

    def wait_for_no_process(self, run):
        deadline = time.time() + 15
        while processes_of(run):
            if time.time() > deadline:
                raise Violation(f"processes left: {processes_of(run)}")
            time.sleep(0.05)

    def temporary_files(self):
        found = glob.glob(os.path.join(tempfile.gettempdir(), "millrace-*"))
        tests = ("millrace-test-", "millrace-page-", "millrace-bench-")  # that run at the same time
        return {path for path in found if path != self.work and not os.path.basename(path).startswith(tests)}

    def main(self):
        before = self.temporary_files()
        self.prepare()
        deadline = time.time() + 60 * self.args.minutes
        while time.time() < deadline:
            self.run_job()
            print(f"{self.counts}, launcher at most {self.most_fds} descriptors, {self.most_rss_kb} KB", flush=True)
            if self.most_fds > MAX_FDS + 8 * max(s + w for s, w in TOPOLOGIES):
                raise Violation(f"the launcher had {self.most_fds} descriptors")
            if self.most_rss_kb > MAX_RSS_KB:
                raise Violation(f"the launcher had {self.most_rss_kb} KB of memory")
            left = self.temporary_files() - before
            if left:
                raise Violation(f"left in {tempfile.gettempdir()}: {left}")
        shutil.rmtree(self.work)
        print("nothing found")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--work", default="")
    try:
        Soak(parser.parse_args()).main()
    except Violation as violation:
        print(f"soak: {violation}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
