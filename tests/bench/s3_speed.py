#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of training straight from a real S3 server (s3rver, npm install -g s3rver) over loopback, beside local files.

    s3_speed.py [--bin=build/bin] [--rounds=5] [--rows=1000000] [--s3rver=s3rver]

The rows are those of millrace-records synth as TFRecords, and 39 named columns as CSV with a feature spec. Each round
trains one pass with SGD from local files and then from s3://; the table has the medians of rows a second (of the
training loop), of CPU seconds of the process, and of the CPU seconds that the server took meanwhile.
"""
import argparse
import json
import os
import pathlib
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "tools/lr"), str(TESTS / "support")]
import remote_test  # noqa: E402


def write_csv(path, rows):
    draw = random.Random(1)
    names = ["label"] + [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)]
    lines = [",".join([str(int(draw.random() < 0.25))] + [str(int(draw.random() ** 4 * 10000)) for _ in range(13)] +
                      [f"{int(draw.random() ** 4 * 100000) * 40503 % 2**32:08x}" for _ in range(26)]) + "\n"
             for _ in range(20000)]
    with open(path, "w", encoding="utf-8") as out:
        out.write(",".join(names) + "\n")
        for begin in range(0, rows, len(lines)):
            out.writelines(lines[:rows - begin])
    return names


def cpu_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def train(args, flags, env):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(args.bin / "millrace-lr"), "--optimizer=sgd", "--learning_rate=0.5", "--batch_size=1000", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(re.search(r"([\d,]+) examples/s", done.stdout).group(1).replace(",", "")), cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default="build/bin")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--s3rver", default="s3rver")
    args = parser.parse_args()
    program = shutil.which(args.s3rver)
    if not program:
        raise SystemExit("s3_speed.py: there is no s3rver (npm install -g s3rver)")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "data").mkdir()
        subprocess.run([str(args.bin / "millrace-records"), "synth", f"--out={folder / 'data'}", f"--rows={args.rows}",
                        "--test_rows=0", "--shards=4"], check=True, stdout=subprocess.DEVNULL)
        for part in range(4):
            names = write_csv(folder / f"data/rows-{part}.csv", args.rows // 4)
        spec = {"hash_bits": 22, "fields": [{"name": column} for column in names[1:]]}
        (folder / "spec.json").write_text(json.dumps(spec))
        server = remote_test.S3Server(program, folder / "objects")
        try:
            for path in sorted((folder / "data").glob("*-*")):
                server.put({f"data/{path.name}": path.read_bytes()})
            env = {**remote_test.CLEAN, **remote_test.KEYS}
            sets = {"TFRecord, keys": ("train-*", ["--num_features=33762578"]),
                    "CSV, 39 columns": ("rows-*", [f"--features={folder / 'spec.json'}"])}
            print("| rows | local, rows/s | s3://, rows/s | ratio (range) | CPU s local, s3://, server |\n|---|---|---|---|---|")
            for label, (files, flags) in sets.items():
                local, remote, taken = [], [], []
                for _ in range(args.rounds):
                    local.append(train(args, [f"--train={folder}/data/{files}", *flags], env))
                    begin = cpu_seconds(server.process)
                    remote.append(train(args, [f"--train=s3://test/data/{files}",
                                               f"--s3_endpoint=http://127.0.0.1:{server.port}", *flags], env))
                    taken.append(cpu_seconds(server.process) - begin)
                ratios = sorted(r[0] / l[0] for l, r in zip(local, remote))
                middle = [statistics.median(one) for one in (*zip(*local), *zip(*remote))]
                print(f"| {label} | {middle[0]:,.0f} | {middle[2]:,.0f} | {statistics.median(ratios):.2f} "
                      f"({ratios[0]:.2f} to {ratios[-1]:.2f}) | {middle[1]:.2f}, {middle[3]:.2f}, "
                      f"{statistics.median(taken):.2f} |", flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
