#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Async and ssp jobs that are killed, and resumed by other numbers of servers and workers: every row counts once.

Usage: kill_resume_test.py BIN_DIR [ROUNDS]

Rows are counted as in resume_matrix_test.py: each has a key of its own, whose weight counts how often the row was
trained on.
"""
import glob
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

L2 = 1000
ROWS, FILES = 60000, 3
# (servers, workers) of a job that is killed, of one that gets SIGTERM, and of the one that finishes; None: one process.
CHAINS = [((2, 3), (3, 2), (1, 1)), ((3, 2), (2, 3), None), ((4, 3), (1, 2), (2, 4)), ((2, 1), (3, 3), (2, 2))]


def command(bin_dir, topology, mode, flags):
    trainer = [str(bin_dir / "millrace-lr"), *flags]
    if topology is None:
        return trainer
    servers, workers = topology
    launch = [str(bin_dir / "millrace-launch"), f"--num_ps={servers}", f"--num_workers={workers}", "--"]
    return launch + trainer + [f"--mode={mode}"] + (["--staleness=3"] if mode == "ssp" else [])


def checkpoint_of(run_dir):
    manifest = run_dir / "checkpoints/manifest"
    text = manifest.read_text(errors="replace") if manifest.exists() else ""
    return [line for line in text.splitlines() if line.startswith("checkpoint")]


def wait_for_no_process(run_dir):
    """The processes of a launcher that was killed end a moment later."""
    end = time.monotonic() + 30
    word = f"--run_dir={run_dir}\0".encode()
    while any(word in read_command_line(path) for path in glob.glob("/proc/[0-9]*/cmdline")):
        assert time.monotonic() < end, f"processes of {run_dir} are left"
        time.sleep(0.01)


def read_command_line(path):
    try:
        return pathlib.Path(path).read_bytes() + b"\0"
    except OSError:  # it has just ended
        return b""


def interrupt(bin_dir, topology, mode, flags, run_dir, number):
    """Starts a job and sends the signal when it has written three checkpoints."""
    seen = {str(checkpoint_of(run_dir))}
    before = len(seen)
    with tempfile.TemporaryFile("w+") as out:
        job = subprocess.Popen(command(bin_dir, topology, mode, flags), stdin=subprocess.DEVNULL, stdout=out,
                               stderr=out)
        end = time.monotonic() + 60
        while len(seen) < before + 3 and job.poll() is None and time.monotonic() < end:
            seen.add(str(checkpoint_of(run_dir)))
            time.sleep(0.002)
        if job.poll() is None:
            job.send_signal(number)
        job.wait(timeout=60)
        out.seek(0)
        text = out.read()
    wait_for_no_process(run_dir)
    assert len(seen) >= before + 3, f"{topology} {mode}: {seen}, expected three checkpoints\n{text}"


def counts(run_dir):
    lines = (run_dir / "model/model.txt").read_text().splitlines()
    weights = dict(line.split("\t") for line in lines if not line.startswith("#"))
    return {int(key): round(abs(float(w)) * 2 * L2) for key, w in weights.items()}


def main():
    bin_dir = pathlib.Path(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    failures, runs = [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for i in range(FILES):
            with open(folder / f"part-{i}.libsvm", "w", encoding="ascii") as out:
                out.writelines(f"{key % 2} {key}:1\n" for key in range(i, ROWS, FILES))
        flags = [f"--train={folder}/part-*.libsvm", f"--num_features={ROWS}", "--optimizer=ftrl", f"--l2={L2}",
                 "--learning_rate=1", "--batch_size=7", "--shuffle_capacity=500", "--epochs=1",
                 "--model_format=text", "--sample_ms=0", "--nointercept", "--checkpoint_every=2000"]
        for _ in range(rounds):
            for mode in ("async", "ssp"):
                for first, second, last in CHAINS:
                    runs += 1
                    run_dir = folder / f"run-{runs}"
                    common = [*flags, f"--run_dir={run_dir}"]
                    interrupt(bin_dir, first, mode, common, run_dir, signal.SIGKILL)
                    interrupt(bin_dir, second, mode, [*common, "--resume"], run_dir, signal.SIGTERM)
                    done = subprocess.run(command(bin_dir, last, mode, [*common, "--resume"]),
                                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                                          check=False)
                    assert done.returncode == 0, done.stdout + done.stderr
                    found = counts(run_dir)
                    wrong = {k: found.get(k, 0) for k in range(ROWS) if found.get(k, 0) != 1}
                    if wrong:
                        failures.append(f"{mode} {first} -> {second} -> {last}: {len(wrong)} rows were not trained on "
                                        f"once: {dict(list(wrong.items())[:9])}")
    if failures:
        sys.exit("\n".join(failures))
    print(f"{runs} runs: every row was trained on once")


main()
