#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that find their role by TF_CONFIG or host patterns, and that something else starts again when they end.

Usage: cluster_task_test.py BIN_DIR [KILLS]

Each process runs the same command in a loop until it exits with status 0, as in a pod that is started again. Random
processes are killed on the way. The model is that of an undisturbed job of millrace-launch.
"""
import hashlib
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

TRAIN = ["--mode=sync", "--num_features=3000", "--epochs=4", "--checkpoint_every=5000", "--learning_rate=0.1",
         "--reconnect_seconds=3"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Pod:
    """Runs a command again and again until it succeeds."""

    def __init__(self, name, command, environment, folder):
        self.name, self.command, self.environment = name, command, environment
        self.log = folder / f"{name}.log"
        self.process = None
        self.starts = 0
        self.closing = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        with open(self.log, "w") as log:
            while not self.closing:
                self.starts += 1
                self.process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.DEVNULL,
                                                stdout=log, stderr=log)
                if self.process.wait() == 0:
                    return
                time.sleep(0.1)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()

    def close(self):
        self.closing = True
        self.kill()
        self.thread.join()


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_pods(commands, folder, kills, seed):
    """commands: {name: (command, environment)}; returns the number of starts."""
    choice = random.Random(seed)
    pods = {name: Pod(name, command, {**os.environ, **extra}, folder) for name, (command, extra) in commands.items()}
    workers = [pod for name, pod in pods.items() if not name.startswith("ps")]
    try:
        deadline = time.monotonic() + 120
        for _ in range(kills):
            time.sleep(choice.uniform(0.2, 0.8))
            if workers[0].thread.is_alive():
                choice.choice(list(pods.values())).kill()
        while any(pod.thread.is_alive() for pod in workers):
            if time.monotonic() > deadline:
                raise AssertionError("\n".join(f"== {p.name}\n{p.log.read_text()[-3000:]}" for p in pods.values()))
            time.sleep(0.05)
    finally:
        for pod in pods.values():
            pod.close()
    return sum(pod.starts for pod in pods.values())


def main():
    bin_dir = pathlib.Path(sys.argv[1])
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    launch = str(bin_dir / "millrace-launch")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        subprocess.run([bin_dir / "millrace-records", "synth", "--rows=40000", "--test_rows=100",
                        "--num_features=3000", f"--out={folder}/d"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        token = folder / "token"
        token.write_text("secret\n")
        token.chmod(0o640 if os.getuid() == 0 else 0o600)  # a secret that is mounted belongs to root

        def trainer(run):
            return ["--", "millrace-lr", f"--train={folder}/d/train-*", f"--run_dir={folder}/{run}", *TRAIN]

        subprocess.run([launch, "--num_ps=1", "--num_workers=3", *trainer("plain")], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        expected = sha256(folder / "plain/model/model.bin")

        # TF_CONFIG: a chief, two workers, a server and an evaluator.
        cluster = {"chief": ["localhost:1"], "worker": ["localhost:2", "localhost:3"],
                   "ps": [f"127.0.0.1:{free_port()}"]}
        command = [launch, f"--token_file={token}", "--ps_flags=--rejoin_seconds=1", *trainer("tf")]
        commands = {}
        for kind, index in [("ps", 0), ("chief", 0), ("worker", 0), ("worker", 1), ("evaluator", 0)]:
            config = json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})
            commands[f"{kind}-{index}"] = (command, {"TF_CONFIG": config})
        starts = run_pods(commands, folder, kills, seed=1)
        assert sha256(folder / "tf/model/model.bin") == expected, "TF_CONFIG: another model"
        print(f"TF_CONFIG: {kills} kills, {starts} starts, the undisturbed model")

        # Patterns: servers have no index here, so they are started by flags; workers know theirs.
        address = f"127.0.0.1:{free_port()}"
        hosts = [f"--ps_hosts={address}", "--worker_hosts=worker-{0..2}.clicks"]
        worker = [launch, f"--token_file={token}", *hosts, *trainer("pods")]
        server = [str(bin_dir / "millrace-ps"), f"--ps_hosts={address}", "--worker_hosts=a,b,c", "--job_name=ps",
                  "--rejoin_seconds=1", f"--token_file={token}", f"--run_dir={folder}/pods"]
        commands = {"ps-0": (server, {})}
        for index in range(3):
            commands[f"worker-{index}"] = (worker, {"JOB_COMPLETION_INDEX": str(index)})
        starts = run_pods(commands, folder, kills, seed=2)
        assert sha256(folder / "pods/model/model.bin") == expected, "JOB_COMPLETION_INDEX: another model"
        print(f"JOB_COMPLETION_INDEX: {kills} kills, {starts} starts, the undisturbed model")

        # What has no effect, or contradicts itself, is an error.
        for extra, environment, message in [
                (["--num_ps=1"], {"TF_CONFIG": "{}"}, "--num_ps with TF_CONFIG"),
                (["--restart=3", "--worker_hosts=a"], {"JOB_COMPLETION_INDEX": "0"}, "--restart with --worker_hosts"),
                ([f"--token_file={token}"], {}, "expected --worker_hosts or TF_CONFIG"),
                (["--ps_hosts=a:1"], {}, "--ps_hosts"),
                (["--worker_hosts=a,b", "--ps_hosts=c:1"], {}, "JOB_COMPLETION_INDEX is not set"),
                (["--worker_hosts=a,b"], {"JOB_COMPLETION_INDEX": "x"}, "JOB_COMPLETION_INDEX='x'"),
                ([], {"TF_CONFIG": "{"}, "TF_CONFIG")]:
            done = subprocess.run([launch, *extra, *trainer("wrong")], env={**os.environ, **environment}, text=True,
                                  capture_output=True)
            assert done.returncode == 2 and message in done.stderr, (extra, done.returncode, done.stderr)
            assert not (folder / "wrong").exists()


if __name__ == "__main__":
    main()
