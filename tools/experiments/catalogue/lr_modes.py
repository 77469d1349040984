# SPDX-License-Identifier: Apache-2.0
"""S4: sparse logistic regression on 33,762,578 features, one server and three workers: synchronous and asynchronous."""
from .. import charts, checks, figures, old_figures, samples, units
from ..data import DENSE_BYTES, FIELDS, RAW_BYTES_PER_KEY
from ..jobs import Job

METRICS = ("accuracy", "precision", "recall", "auc", "logloss", "ne", "calibration")


def run(context):
    """Synchronous and asynchronous training with the old settings."""
    flags, facts = context.data.clicks()
    more_flags = {"test_batch_size": 20, "eval_every": 20_000, "max_examples": 200_000, "threads": 1}
    runs = {}
    for mode in ("sync", "async"):
        runs[mode] = context.run(Job(mode, "millrace-lr", mode, 100, {**flags, **more_flags}, workers=3, servers=1))
    found = context.found
    split = f"{facts['test']['rows']:,} test rows"
    quality_table(found, runs, facts, split)
    curves(found, runs, split)
    workers_table(found, runs)
    peaks_table(found, runs)
    figures.resources(found, runs)
    diagnoses(context, runs)
    mode_checks(context, runs)
    split_checks(context, runs, facts, split)
    sync, other = runs["sync"], runs["async"]
    found.headlines += [
        (f"{units.number(sync.examples_per_s)}/s", "examples, sync (old: 33/s on 4 hosts)"),
        (f"{units.number(other.examples_per_s)}/s", "examples, async"),
        (units.percent(other.final["accuracy"]), f"accuracy, async, {split}"),
        (
            units.bytes_text(per_exchange(sync)),
            f"per step of a worker, in both directions (dense: {units.bytes_text(2 * DENSE_BYTES)})",
        ),
    ]


def quality_table(found, runs, facts, split):
    test = facts["test"]
    rows = [[name, *(f"{run.final[name]:.4f}" for run in runs.values())] for name in METRICS]
    known = {
        "accuracy": f"{1 - test['positives']:.4f} (always “no”)",
        "auc": f"{test['bayes_auc']:.4f} (best possible)",
        "logloss": f"{test['bayes_logloss']:.4f} (best possible)",
        "ne": f"{test['bayes_normalized_entropy']:.4f} (best possible)",
        "calibration": "1 (right on average)",
    }
    rows = [[*row, known.get(row[0], "–")] for row in rows]
    rows.append(["time of the whole run", *(units.seconds(run.wall_s) for run in runs.values()), "–"])
    rows.append(["examples/s", *(units.number(run.examples_per_s) for run in runs.values()), "–"])
    old = (
        ["“precision”, a curve only"]
        + ["–"] * (len(METRICS) - 1)
        + [f"about {old_figures.LR['seconds'] // 60} min", old_figures.LR["examples_per_s"]]
    )
    rows = [[*row, figure] for row, figure in zip(rows, old)]
    note = (
        f"Split: metrics are of the {split}, {test['positives'] * 100:.1f} % of them positive; examples/s of the"
        " training split."
    )
    found.table("After 200,000 training points", ["metric", "sync", "async", "to compare", "old (S4)"], rows, note)


def curves(found, runs, split):
    plots = []
    for name, unit in (
        ("accuracy", "share right"),
        ("precision", "of predicted positives"),
        ("logloss", "nats"),
        ("auc", ""),
    ):
        series = [(mode, [(row["examples"], row[name]) for row in run.rows]) for mode, run in runs.items()]
        plots.append(charts.lines(f"test {name}", unit, "training points", series))
    found.figures.append(
        (
            "Curves",
            (
                f"Against training points, on the {split}. The old “precision” is the first of them: accuracy."
                " Asynchronous workers keep training while worker 0 evaluates, so its evaluations may be far apart."
            ),
            plots,
        )
    )


def workers_table(found, runs):
    rows = []
    for mode, run in runs.items():
        for worker, examples, pushes, dropped, rate, waited, where in run.worker_rows():
            wire = run.worker_wire(int(worker))
            rows.append(
                [
                    mode,
                    f"worker {worker}",
                    where,
                    examples,
                    pushes,
                    dropped,
                    rate,
                    f"{waited} s",
                    units.bytes_text(wire["bytes"]),
                ]
            )
    columns = ["mode", "worker", "placement", "examples", "gradients", "dropped", "examples/s", "others waited", "bytes"]
    found.table("Workers", columns, rows, "The server ran on the same host. The bytes of worker 0 include its evaluations.")


def peaks_table(found, runs):
    cells = {mode: peak_cells(run) for mode, run in runs.items()}
    rows = []
    for name, (old_sync, old_async) in old_figures.LR_PEAKS.items():
        rows.append([name, cells["sync"][name], cells["async"][name], old_sync, old_async])
    rows.append(["reads, cached or not", cells["sync"]["reads"], cells["async"]["reads"], "–", "–"])
    note = (
        "Peaks over 50 ms, all processes of the job together; CPU and memory in percent of the host, network at the"
        " server, both directions. The old network figures are megabits a second, not megabytes: 135 MB twice at 349"
        " Mbit/s are 6.2 of the 7.1 s of a round. Disk includes the trace and the model, which are written at the end."
    )
    found.table("Peaks", ["resource", "sync", "async", "old sync", "old async"], rows, note)
    found.numbers["peaks"] = {mode: cells[mode]["numbers"] for mode in runs}


def peak_cells(run):
    every = list(run.samples.values())
    servers = [each for each in every if each.process.startswith("ps")]
    most = lambda track: max((value for _, value in track), default=0.0)
    host = run.facts["host"]
    disk = most(samples.summed(every, samples.DISK))
    cpu = most(samples.summed(every, samples.CPU)) / host["cores"]
    memory = most(samples.summed(every, memory=True))
    network = most(samples.summed(servers, samples.NETWORK))
    reads = most(samples.summed(every, samples.READS))
    return {
        "disk": f"{units.number(disk / 1e3)} KB/s",
        "CPU": f"{units.percent(cpu, 0)} of {host['cores']} cores",
        "memory": f"{units.percent(memory / host['memory_bytes'], 1)} ({units.bytes_text(memory)})",
        "network": f"{units.number(network * 8 / 1e6)} Mbit/s ({units.number(network / 1e6)} MB/s)",
        "reads": f"{units.number(reads / 1e6)} MB/s",
        "numbers": {"disk_bytes_per_s": disk, "cpu_share": cpu, "memory_bytes": memory, "network_bytes_per_s": network},
    }


def diagnoses(context, runs):
    rows = []
    for mode, run in runs.items():
        diagnosis = context.diagnosis(run)
        rows.append([mode, diagnosis["sentence"], old_figures.LR_DIAGNOSIS[mode]])
        for line in diagnosis["evidence"]:
            rows.append(["", line, ""])
        context.found.numbers[f"{mode}_diagnosis"] = {
            key: diagnosis[key] for key in ("bottleneck", "share", "speedup_without")
        }
    context.found.table(
        "Bottlenecks", ["mode", "diagnosis of millrace-report, and its evidence", "old diagnosis"], rows
    )


def plain_workers(run):
    """Bytes, exchanges and the longest time of the workers that do not evaluate."""
    parts = [run.worker_wire(worker) for worker in range(1, run.job.workers)]
    return (
        sum(p["bytes"] for p in parts),
        sum(p["exchanges"] for p in parts),
        max(max(p["seconds"] for p in parts), 1e-3),
    )


def per_exchange(run):
    total, exchanges, _ = plain_workers(run)
    return total / exchanges


def mode_checks(context, runs):
    found = context.found
    sync, other = plain_workers(runs["sync"]), plain_workers(runs["async"])
    found.checks.append(
        checks.async_rate(
            context,
            runs["sync"],
            runs["async"],
            lambda run: plain_workers(run)[::2],
            "workers 1 and 2, which do not evaluate",
        )
    )
    found.checks.append(checks.async_bytes(sync[0], sync[1], other[0], other[1]))
    most = 100 * FIELDS * RAW_BYTES_PER_KEY
    for mode, run in runs.items():
        size = per_exchange(run)
        text = (
            f"{units.bytes_text(size)} per step in both directions; {100 * FIELDS:,} touched weights raw are"
            f" {units.bytes_text(most)}, a dense model {units.bytes_text(DENSE_BYTES)}"
        )
        found.check(f"{mode}: only touched weights travel", 0 < size <= 1.5 * most, text, 2)


def split_checks(context, runs, facts, split):
    """Scores the test files with each saved model and millrace-predict."""
    found = context.found
    flags, _ = context.data.clicks()
    for mode, run in runs.items():
        model = run.folder / "model" / "model.bin"
        output = context.tool("millrace-predict", f"--model={model}", "--metrics", "--out=/dev/null", flags["test"])
        again = predicted_metrics(output.lines)
        text = (
            f"run: logloss {run.final['logloss']:.6f}, millrace-predict on the {split}:"
            f" {again.get('logloss', float('nan')):.6f}"
        )
        found.check(
            f"{mode}: the figures are of the test split",
            abs(again.get("logloss", 0) - run.final["logloss"]) < 1e-4,
            text,
            8,
        )
        missing = [name for name in METRICS if run.final.get(name) is None]
        base = 1 - facts["test"]["positives"]
        accuracy, precision = run.final["accuracy"], run.final["precision"]
        text = (
            f"accuracy {accuracy:.4f}, precision {precision:.4f}; always “no” is right on {base:.4f}; all of"
            f" {', '.join(METRICS)} reported"
        )
        found.check(
            f"{mode}: accuracy and precision under their names",
            not missing and accuracy > base and accuracy != precision,
            text,
            3,
        )


def predicted_metrics(lines):
    """The numbers that millrace-predict --metrics prints, one name and value per line."""
    pairs = [line.split() for line in lines]
    return {pair[0]: float(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] in METRICS}
