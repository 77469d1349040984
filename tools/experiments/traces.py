# SPDX-License-Identifier: Apache-2.0
"""Reads trace-<process>.json: the spans of a process, in Chrome's format."""
import dataclasses
import json
import pathlib
import statistics


@dataclasses.dataclass
class Span:
    process: str
    thread: str
    name: str
    category: str
    begin_us: float  # on the clock that all processes of the run share
    duration_us: float
    args: dict

    @property
    def end_us(self):
        return self.begin_us + self.duration_us


def read_trace(path):
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    other = trace["otherData"]
    origin_us = (int(other["steady_origin_ns"]) + int(other["clock_offset_ns"])) / 1e3
    events = trace["traceEvents"]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    return [
        Span(
            other["process"],
            f"{threads.get(e['tid'], 'thread')} {e['tid']}",
            e["name"],
            e["cat"],
            origin_us + e["ts"],
            e["dur"],
            e.get("args", {}),
        )
        for e in events
        if e["ph"] == "X"
    ]


def read_traces(run_dir):
    spans = []
    for path in sorted(pathlib.Path(run_dir).glob("trace-*.json")):
        spans += read_trace(path)
    return spans


@dataclasses.dataclass
class Op:
    calls: int
    mean_us: float
    p50_us: float
    total_us: float
    most_keys: int
    most_nnz: int


def op_table(spans):
    """Statistics of the spans by name."""
    groups = {}
    for span in spans:
        groups.setdefault(span.name, []).append(span)
    return {
        name: Op(
            calls=len(group),
            mean_us=statistics.fmean(span.duration_us for span in group),
            p50_us=statistics.median(span.duration_us for span in group),
            total_us=sum(span.duration_us for span in group),
            most_keys=max(span.args.get("keys", 0) for span in group),
            most_nnz=max(span.args.get("nnz", 0) for span in group),
        )
        for name, group in groups.items()
    }
