# SPDX-License-Identifier: Apache-2.0
"""Reads resources-<process>.csv: the resources that a process used."""
import csv
import pathlib

CPU = ("user_s_total", "system_s_total")
SENT = ("tcp_sent_bytes_total",)
RECEIVED = ("tcp_received_bytes_total",)
NETWORK = SENT + RECEIVED
PACKETS = ("tcp_sent_packets_total", "tcp_received_packets_total")
DISK = ("disk_read_bytes_total", "disk_written_bytes_total")
READS = ("read_bytes_total",)


class Samples:
    """The samples of one process. Rates are between neighbouring samples; columns are summed."""

    def __init__(self, process, rows):
        self.process = process
        self.rows = rows
        self.times = [(float(row["steady_ns"]) + float(row["clock_offset_ns"])) / 1e9 for row in rows]

    def values(self, columns):
        return [sum(float(row[column]) for column in columns) for row in self.rows]

    def total(self, columns):
        return self.values(columns)[-1] if self.rows else 0.0

    def mean_rate(self, columns):
        values = self.values(columns)
        span = self.times[-1] - self.times[0] if len(self.times) > 1 else 0
        return (values[-1] - values[0]) / span if span > 0 else 0.0

    def rates(self, columns):
        values = self.values(columns)
        pairs = zip(zip(self.times, values), zip(self.times[1:], values[1:]))
        return [(t1, (v1 - v0) / (t1 - t0)) for (t0, v0), (t1, v1) in pairs if t1 > t0]

    def peak_memory(self):
        return max(self.values(("peak_resident_bytes",)), default=0.0)


def read_samples(run_dir):
    """Samples by process; servers last."""
    found = {}
    for path in sorted(pathlib.Path(run_dir).glob("resources-*.csv")):
        with open(path, encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row.get("threads") is not None]
        if rows:
            process = path.stem.removeprefix("resources-")
            found[process] = Samples(process, rows)
    return dict(sorted(found.items(), key=lambda item: (item[0].startswith("ps"), item[0])))


def summed(all_samples, columns=None, memory=False, points=120):
    """A rate (or the memory) of several processes added up: [(seconds of the run's common clock, value)]."""
    tracks = []
    for samples in all_samples:
        track = list(zip(samples.times, samples.values(("resident_bytes",)))) if memory else samples.rates(columns)
        if track:
            tracks.append(track)
    if not tracks:
        return []
    begin = min(track[0][0] for track in tracks)
    end = max(track[-1][0] for track in tracks)
    step = max((end - begin) / points, 1e-3)
    ticks = [begin + step * i for i in range(int((end - begin) / step) + 1)]
    return [(tick, sum(at(track, tick) for track in tracks)) for tick in ticks]


def at(track, time):
    """The value of the sample that covers `time`: the next one; 0 before the first and after the last."""
    if time > track[-1][0] or time < track[0][0]:
        return 0.0
    return next(value for when, value in track if when >= time)
