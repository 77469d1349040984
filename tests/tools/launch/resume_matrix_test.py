#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Any number of servers and workers resumes the run of any other: every row counts once an epoch.

Usage: resume_matrix_test.py BIN_DIR

Each row has a key of its own. FTRL takes the gradient of the summed loss, and with a large l2 all weights
stay near 0, so that each training on a row adds 1/2 to its key's gradients: the weight, times twice
l2, counts them.
"""
import itertools
import pathlib
import subprocess
import sys
import tempfile

L2 = 1000
ROWS_PER_FILE = [130, 77, 201, 40, 92]
EPOCHS = 3
TOPOLOGIES = [None, (1, 2), (2, 3), (3, 1)]  # servers, workers; None: one process


def command(bin_dir, topology, mode, flags):
    trainer = [str(bin_dir / "millrace-lr"), *flags]
    if topology is None:
        return trainer
    servers, workers = topology
    launch = [str(bin_dir / "millrace-launch"), f"--num_ps={servers}", f"--num_workers={workers}", "--"]
    return launch + trainer + [f"--mode={mode}"]


def run(bin_dir, topology, mode, flags, status=0):
    done = subprocess.run(command(bin_dir, topology, mode, flags), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != status:
        sys.exit(f"{topology} {mode} {flags}: status {done.returncode}, expected {status}\n"
                 f"{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def counts(run_dir):
    lines = (run_dir / "model/model.txt").read_text().splitlines()
    weights = dict(line.split("\t") for line in lines if not line.startswith("#"))
    return {int(key): round(abs(float(w)) * 2 * L2) for key, w in weights.items()}


def main():
    bin_dir = pathlib.Path(sys.argv[1])
    modes = sys.argv[2].split(",") if len(sys.argv) > 2 else ["sync"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        key = 0
        for i, rows in enumerate(ROWS_PER_FILE):
            with open(folder / f"part-{i}.libsvm", "w", encoding="ascii") as out:
                for _ in range(rows):
                    out.write(f"{key % 2} {key}:1\n")
                    key += 1
        flags = [f"--train={folder}/part-*.libsvm", f"--num_features={key}", "--optimizer=ftrl",
                 f"--l2={L2}", "--learning_rate=1", "--batch_size=7", "--shuffle_capacity=50", f"--epochs={EPOCHS}",
                 "--model_format=text", "--sample_ms=0", "--nointercept"]
        run(bin_dir, None, "", [*flags, f"--run_dir={folder / 'whole'}"])
        expected = {k: EPOCHS for k in range(key)}
        assert counts(folder / "whole") == expected
        number = 0
        # In the first epoch, at its end, and in the second; then once more on the way.
        for mode in modes:
            for before, after in itertools.product(TOPOLOGIES, TOPOLOGIES):
                for stop in (200, 900):
                    number += 1
                    run_dir = folder / f"run-{number}"
                    common = [*flags, f"--run_dir={run_dir}"]
                    run(bin_dir, before, mode, [*common, f"--max_examples={stop}"])
                    third = TOPOLOGIES[number % len(TOPOLOGIES)]
                    text = run(bin_dir, after, mode, [*common, f"--max_examples={stop + 150}", "--resume"])
                    assert "resumed   from" in text, text
                    run(bin_dir, third, mode, [*common, "--resume"])
                    found = counts(run_dir)
                    wrong = {k: found.get(k, 0) for k in expected if found.get(k, 0) != EPOCHS}
                    if wrong:
                        sys.exit(f"{mode} {before} -> {after} -> {third}, stopped after {stop}: {len(wrong)} rows "
                                 f"were not trained on {EPOCHS} times: {dict(list(wrong.items())[:9])}")
        print(f"{number} runs: every row was trained on {EPOCHS} times")


main()
