# SPDX-License-Identifier: Apache-2.0
"""The output of a finished job: its run folder, and the lines its processes printed."""
import csv
import json
import pathlib
import re

from . import samples, units

NET_PARAMETERS = re.compile(r"net +\w+, ([\d,]+) parameters")
TRAINED = re.compile(r"trained +([\d,]+) (?:example|image)s? in ([\d,]+) steps?")
WIRE = re.compile(r"wire +(sent|received) +predicted +([\d.,]+ \w+), measured +([\d.,]+ \w+)")
EXCHANGES = re.compile(r"([\d,]+) exchanges?, waited")
SERVED = re.compile(r"served ([\d,]+) steps?, ([\d,]+) messages?, ([\d.,]+ \w+) in, ([\d.,]+ \w+) out")
EFFECTIVE = re.compile(r"effective batch ([\d,]+)")
STARTED = re.compile(r"started (\d+) process(?:es)? in ([\d.]+) s")
READY = re.compile(r"ready in ([\d.]+) s")
TIME = re.compile(r"time +([\d.]+) s")
SPLITS = re.compile(r"data +([\d,]+) training and ([\d,]+) test images?")
WORKER_ROW = re.compile(r" +(\d+) +([\d,]+) +([\d,]+) +([\d,]+) +([\d,]+) +([\d.]+) s +(.+)")
BYTES_A_WEIGHT = 4


def whole(text):
    return int(text.replace(",", ""))


class Run:
    """A job, its run folder and its output, read together."""

    def __init__(self, job, folder, output):
        self.job = job
        self.folder = pathlib.Path(folder)
        self.command = output.command
        self.lines = output.lines
        self.wall_s = output.seconds
        self.other_cores = output.other_cores
        self.facts = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        self.rows = read_metrics(self.folder / "metrics.csv")
        self.samples = samples.read_samples(self.folder)

    def lines_of(self, process):
        """The lines of one process; all lines, if the job has no launcher."""
        if not any(line.startswith(process) and "| " in line for line in self.lines):
            return self.lines if not self.job.servers and process == "worker 0" else []
        return [line.split("| ", 1)[1] for line in self.lines if line.startswith(process) and "| " in line]

    def find(self, pattern, process="worker 0"):
        """The last match in the lines of the process."""
        found = [match for match in map(pattern.search, self.lines_of(process)) if match]
        return found[-1] if found else None

    @property
    def updates(self):
        return whole(self.find(TRAINED).group(2))

    @property
    def examples(self):
        return whole(self.find(TRAINED).group(1))

    @property
    def stated_effective_batch(self):
        found = self.find(EFFECTIVE)
        return whole(found.group(1)) if found else self.job.batch

    @property
    def training_s(self):
        """Training without evaluation, from the rows of the metrics."""
        if not self.rows:
            return float(self.find(TIME).group(1))
        total, before = 0.0, 0
        for row in self.rows:
            if row["examples_per_s"]:
                total += (row["examples"] - before) / row["examples_per_s"]
            before = row["examples"]
        return total

    @property
    def examples_per_s(self):
        return self.examples / self.training_s if self.training_s else None

    @property
    def final(self):
        return self.rows[-1] if self.rows else {}

    @property
    def splits(self):
        """(training images, test images), as the program prints them."""
        found = self.find(SPLITS)
        return (whole(found.group(1)), whole(found.group(2))) if found else None

    @property
    def parameters(self):
        found = self.find(NET_PARAMETERS)
        return whole(found.group(1)) if found else None

    @property
    def worker_names(self):
        return [f"worker-{i}" for i in range(self.job.workers)]

    def column(self, name):
        return [row[name] for row in self.rows if row.get(name) is not None]

    def wire(self):
        """(predicted, measured) bytes in both directions of the whole job; None for a single process."""
        if not self.job.servers:
            return None
        return self._dense_wire() if self.parameters else self._sparse_wire()

    def _sparse_wire(self):
        predicted = measured = 0.0
        for worker in range(self.job.workers):
            for line in self.lines_of(f"worker {worker}"):
                if found := WIRE.search(line):
                    predicted += units.bytes_from(found.group(2))
                    measured += units.bytes_from(found.group(3))
        return predicted, measured

    def _dense_wire(self):
        """Every gradient goes to the servers and every new model comes back, 4 bytes per parameter. In addition, the
        chief sends the first model and fetches the last one, and each worker fetches the first one."""
        gradients = self.updates * (self.job.workers if self.job.mode == "sync" else 1)
        models = 2 * gradients + 1 + self.job.workers + 1
        measured = 0.0
        for server in range(self.job.servers):
            if found := self.find(SERVED, f"ps {server}"):
                measured += units.bytes_from(found.group(3)) + units.bytes_from(found.group(4))
        return models * self.parameters * BYTES_A_WEIGHT, measured

    def kernel_bytes(self):
        """Bytes on the workers' sockets, as the kernel counted them until the last sample."""
        return sum(self.samples[name].total(samples.NETWORK) for name in self.worker_names if name in self.samples)

    def worker_wire(self, worker):
        """The bytes in both directions, exchanges and seconds of one worker of a sparse job."""
        lines = [match for match in map(WIRE.search, self.lines_of(f"worker {worker}")) if match]
        return {
            "bytes": sum(units.bytes_from(match.group(3)) for match in lines),
            "exchanges": whole(self.find(EXCHANGES, f"worker {worker}").group(1)),
            "seconds": float(self.find(TIME, f"worker {worker}").group(1)),
        }

    def worker_rows(self):
        """The chief's table of workers: [(worker, examples, pushes, dropped, examples/s, seconds that others waited for it,
        where)]."""
        return [match.groups() for match in map(WORKER_ROW.fullmatch, self.lines_of("worker 0")) if match]

    def start_s(self):
        """(until all processes ran, until the last worker was ready to train)"""
        started = [match for match in map(STARTED.search, self.lines) if match]
        ready = [match for match in map(READY.search, self.lines) if match]
        return (
            float(started[-1].group(2)) if started else 0.0,
            max((float(match.group(1)) for match in ready), default=0.0),
        )


def read_metrics(path):
    """One dict per row; empty cells are None."""
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return [{name: float(cell) if cell else None for name, cell in row.items()} for row in csv.DictReader(file)]
