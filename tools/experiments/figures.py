# SPDX-License-Identifier: Apache-2.0
"""Figures that several experiments draw from their runs."""
import re
import statistics

from . import charts, samples

CATEGORIES = ("input", "disk", "compute", "network", "server", "barrier", "evaluation", "checkpoint", "step", "op")
GRAPH_NODE = re.compile(r'\s*"[^"]+" \[label="(?P<label>[^"]*)"\]')
BOX, GAP, TALL = 128, 26, 58


def resources(found, runs, heading="Resources"):
    """CPU, memory, network and disk of each run, on one time axis each. runs: name -> Run."""
    plots = []
    for name, run in runs.items():
        every = list(run.samples.values())
        workers = [each for each in every if not each.process.startswith("ps")]
        servers = [each for each in every if each.process.startswith("ps")]
        groups = [("workers", workers)] + ([("servers", servers)] if servers else [])
        begin = min((each.times[0] for each in every), default=0)
        end = max((each.times[-1] for each in every), default=1)
        for title, unit, columns, scale in (
            ("CPU", "cores", samples.CPU, 1),
            ("network", "Mbit/s, both directions", samples.NETWORK, 8e-6),
            ("memory", "MB", None, 1e-6),
            ("reads", "MB/s, cached or not", samples.READS, 1e-6),
        ):
            series = []
            for group, members in groups:
                track = samples.summed(members, columns, memory=columns is None)
                series.append((group, [(x - begin, y * scale) for x, y in track]))
            plots.append(
                charts.lines(f"{name}: {title}", unit, "seconds", series, from_zero=True, x_range=(0, end - begin))
            )
    found.figures.append(
        (
            heading,
            (
                "Samples every 50 ms, all charts of a run on the same time axis. The report.html of each run folder has"
                " them for every process."
            ),
            plots,
        )
    )


def learning_curves(found, runs, split, x="step"):
    """Accuracy and loss against steps. runs: name -> Run."""
    plots = []
    for column, title, unit in (("accuracy", "test accuracy", "share right"), ("loss", "training loss", "nats")):
        series = [(name, [(row[x], row.get(column)) for row in run.rows]) for name, run in runs.items()]
        plots.append(charts.lines(title, unit, "updates" if x == "step" else x, series))
    found.figures.append(
        (
            "Curves",
            f"Accuracy is of the {split}; the loss is of the training split, on images before they are trained on.",
            plots,
        )
    )


def typical_step(spans, process):
    """Begin and duration of the median step of the second half."""
    steps = sorted((s for s in spans if s.process == process and s.name == "step"), key=lambda s: s.begin_us)
    later = steps[len(steps) // 2 :]
    middle = statistics.median_low(step.duration_us for step in later)
    step = next(step for step in later if step.duration_us == middle)
    return step.begin_us, step.duration_us


def window(title, spans, begin, length, processes=None):
    """The spans between begin and begin + length, one lane per thread; nested spans are below their parents."""
    threads = {}
    for span in spans:
        if span.begin_us < begin + length and span.end_us > begin and (not processes or span.process in processes):
            threads.setdefault((span.process, span.thread), []).append(span)
    lanes = []
    for (process, thread), members in sorted(threads.items()):
        drawn, open_spans = [], []
        for span in sorted(members, key=lambda s: (s.begin_us, -s.duration_us)):
            open_spans = [other for other in open_spans if other.end_us > span.begin_us + 1e-3]
            numbers = ", ".join(f"{key} {value:,}" for key, value in span.args.items() if isinstance(value, int))
            tip = f"{span.name}: {span.duration_us:.1f} µs {numbers}"
            kind = span.category if span.category in CATEGORIES else "op"
            drawn.append((span.begin_us - begin, span.duration_us, len(open_spans), kind, tip, span.name))
            open_spans.append(span)
        lanes.append((f"{process} {thread.rsplit(' ', 1)[0]}", drawn))
    used = [kind for kind in CATEGORIES if any(span[3] == kind for _, members in lanes for span in members)]
    return charts.timeline(title, "µs", lanes, length, used)


def net_graph(context, net):
    """(heading, note, [svg]): the forward chain, from images to loss."""
    output = context.tool("millrace-convnet", f"--net={net}", "--graph=-")
    labels = [match["label"].split("\\n") for match in map(GRAPH_NODE.match, output.lines) if match]
    note = "From images to loss. Each run folder has it as graph.dot, and TensorBoard shows it."
    return "Computation graph", note, [graph_chain([each for each in labels if each != ["labels"]])]


def graph_chain(labels, per_row=8):
    rows = -(-len(labels) // per_row)
    width = per_row * (BOX + GAP) + GAP
    parts = []
    for i, lines in enumerate(labels):
        x, y = GAP + i % per_row * (BOX + GAP), 14 + i // per_row * (TALL + 24)
        parts.append(f'<rect x="{x}" y="{y}" width="{BOX}" height="{TALL}" rx="8" class="box"/>')
        if len(lines) == 1:
            lines = lines[0].split(" ", 1)
        for j, line in enumerate(lines):
            kind = ' class="title"' if j == 0 else ""
            parts.append(f'<text x="{x + BOX / 2}" y="{y + 18 + 15 * j}" text-anchor="middle"{kind}>{charts.esc(line)}</text>')
        if i + 1 < len(labels) and (i + 1) % per_row:
            middle = y + TALL / 2
            parts.append(f'<path d="M{x + BOX + 4} {middle}h{GAP - 10}m-5 -4l5 4l-5 4" class="arrow"/>')
    return f'<svg class="chart wide" viewBox="0 0 {width} {rows * (TALL + 24) + 10}">{"".join(parts)}</svg>'
