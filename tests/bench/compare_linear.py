#!/usr/bin/python3
"""Training speed beside other programs' on the same rows of the same machine, taking turns.

    compare_linear.py DATA [--rounds=3] [--rows=400000] [--bin=build/bin] [--peers=sklearn,torch]

DATA is a glob of files of `millrace-records synth`. Shown are medians of the rounds, in rows a second, and the ratio of
millrace-lr to each peer. What is timed:

  millrace    the whole process of millrace-lr from files, all rows of DATA once (start, reading and model included)
  sklearn     SGDClassifier.fit, log loss, 10 passes over ROWS rows that are already a CSR matrix in memory
  torch       EmbeddingBag of one column (sparse gradients) with SGD, batches of 100 rows that are in memory; 2 threads

Needs the packages python3-sklearn and python3-torch: a peer that is not there is left out.
"""
import argparse
import glob
import importlib.util
import json
import pathlib
import statistics
import subprocess
import time

NUM_FEATURES = 33762578
SKLEARN_PASSES = 10


def read_rows(args):
    import numpy

    files = sorted(glob.glob(args.data))
    command = [f"{args.bin}/millrace-records", "cat", f"--limit={args.rows}", *files]
    lines = subprocess.run(command, check=True, capture_output=True).stdout.splitlines()
    rows = [json.loads(line)["features"] for line in lines]
    index = numpy.array([row["index"] for row in rows], dtype=numpy.int64)
    label = numpy.array([max(0, row["label"][0]) for row in rows], dtype=numpy.int64)
    return index, label


def millrace(args, optimizer):
    command = [f"{args.bin}/millrace-lr", f"--train={args.data}", f"--num_features={NUM_FEATURES}",
               f"--optimizer={optimizer}", "--threads=2"]
    begin = time.perf_counter()
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds = time.perf_counter() - begin
    trained = next(line for line in out.splitlines() if line.startswith("trained"))
    return int(trained.split()[1].replace(",", "")) / seconds


def sklearn(index, label):
    import numpy
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import SGDClassifier

    rows, width = index.shape
    matrix = csr_matrix((numpy.ones(index.size), index.astype(numpy.int32).ravel(),
                         numpy.arange(0, index.size + 1, width, dtype=numpy.int32)), shape=(rows, NUM_FEATURES))
    model = SGDClassifier(loss="log_loss", alpha=0, learning_rate="constant", eta0=0.1, shuffle=False, tol=None,
                          max_iter=SKLEARN_PASSES)
    begin = time.perf_counter()
    model.fit(matrix, label)
    return SKLEARN_PASSES * rows / (time.perf_counter() - begin)


def torch_bag(index, label):
    import torch

    torch.set_num_threads(2)
    bag = torch.nn.EmbeddingBag(NUM_FEATURES, 1, mode="sum", sparse=True)
    torch.nn.init.zeros_(bag.weight)
    optimizer = torch.optim.SGD(bag.parameters(), lr=0.1)
    loss = torch.nn.BCEWithLogitsLoss()
    rows = min(len(index), 40000)
    keys, labels = torch.from_numpy(index[:rows]), torch.from_numpy(label[:rows]).float()
    begin = time.perf_counter()
    for at in range(0, rows, 100):
        optimizer.zero_grad(set_to_none=True)
        loss(bag(keys[at:at + 100]).squeeze(1), labels[at:at + 100]).backward()
        optimizer.step()
    return rows / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=400000)
    parser.add_argument("--bin", default=str(pathlib.Path(__file__).parents[2] / "build/bin"))
    parser.add_argument("--peers", default="sklearn,torch")
    args = parser.parse_args()
    wanted = args.peers.split(",")
    runs = {f"millrace {name}": lambda name=name: millrace(args, name) for name in ("sgd", "adagrad", "ftrl")}
    index, label = read_rows(args)
    if "sklearn" in wanted and importlib.util.find_spec("sklearn"):
        runs["sklearn"] = lambda: sklearn(index, label)
    if "torch" in wanted and importlib.util.find_spec("torch"):
        runs["torch"] = lambda: torch_bag(index, label)
    rates = {name: [] for name in runs}
    for _ in range(args.rounds):
        for name, run in runs.items():
            rates[name].append(run())
    own = statistics.median(rates["millrace sgd"])
    print(f"{'':18} {'rows/s':>12} {'least':>12} {'most':>12}  millrace sgd is")
    for name, values in rates.items():
        middle = statistics.median(values)
        print(f"{name:18} {middle:12,.0f} {min(values):12,.0f} {max(values):12,.0f}  {own / middle:.2f} times as fast")


if __name__ == "__main__":
    main()
