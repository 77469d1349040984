# SPDX-License-Identifier: Apache-2.0
"""S2: softmax regression for 6,000 steps, and all resources against the batch."""
from .. import charts, old_figures, samples, units
from . import softmax


def run(context):
    """6,000 steps with two and three workers, then all resources against the batch."""
    steps = context.choose(6000, 1200)
    found, rows, runs = context.found, [], {}
    for mode in ("async", "sync"):
        for workers in (2, 3):
            name = f"{mode}-{workers}"
            runs[name] = run = steps_run(context, name, mode, 100, workers, steps)
            old = old_figures.SOFTMAX_S2[mode, workers]
            rows.append(
                [
                    mode,
                    workers,
                    f"{run.job.effective_batch:,}",
                    f"{run.updates:,}",
                    units.percent(run.final["accuracy"]),
                    units.seconds(run.training_s),
                    units.seconds(run.training_s * 6000 / steps),
                    old["seconds"],
                    softmax.listed(softmax.rate_of(run), "MB/s", 1e-6),
                    old["network"],
                ]
            )
    columns = [
        "mode",
        "workers",
        "effective batch",
        "updates",
        "test accuracy",
        "time",
        "time for 6,000 steps",
        "old (S2) time",
        "network, each worker",
        "old network",
    ]
    note = (
        f"Split: accuracy is of the {softmax.SPLIT}. {steps:,} steps of ours; the report gives no batch: ours is 100. A"
        " synchronous step has a gradient of every worker, an asynchronous one that of one."
    )
    found.table("6,000 steps", columns, rows, note)
    sweep(context, context.choose(2000, 300))
    softmax.accuracy_checks(found, {name: runs[name] for name in ("sync-3", "async-3")})
    softmax.mode_checks(context, {"sync": runs["sync-3"], "async": runs["async-3"]})
    found.headlines += [
        (
            units.seconds(run.training_s * 6000 / steps),
            f"6,000 steps, {name} workers (old: {old_figures.SOFTMAX_S2[run.job.mode, run.job.workers]['seconds']})",
        )
        for name, run in runs.items()
    ]


def steps_run(context, name, mode, batch, workers, steps):
    examples = steps * batch * (workers if mode == "sync" else 1)
    return softmax.train(
        context,
        name,
        mode,
        batch,
        workers,
        profile=False,
        epochs=1000,
        max_examples=examples,
        eval_every=max(examples // 4, 1),
    )


def sweep(context, steps):
    """Batch 8, 64, 512, synchronous, three workers."""
    batches = (8, 64, 512)
    runs = {batch: steps_run(context, f"sync-batch-{batch}", "sync", batch, 3, steps) for batch in batches}
    mean = lambda values: sum(values) / len(values)
    measures = {
        "time, ms per step": [runs[b].training_s / runs[b].updates * 1e3 for b in batches],
        "memory of a worker, MB": [
            mean([runs[b].samples[w].peak_memory() / 1e6 for w in runs[b].worker_names]) for b in batches
        ],
        "CPU of a worker, %": [mean(softmax.rate_of(runs[b], samples.CPU)) * 100 for b in batches],
        "received by a worker, MB/s": [mean(softmax.rate_of(runs[b], samples.RECEIVED)) / 1e6 for b in batches],
        "sent by a worker, MB/s": [mean(softmax.rate_of(runs[b], samples.SENT)) / 1e6 for b in batches],
        "images/s": [runs[b].examples_per_s for b in batches],
    }
    rows = [[name, *map(units.number, values)] for name, values in measures.items()]
    rows.append(["effective batch", *(f"{runs[b].job.effective_batch:,}" for b in batches)])
    rows.append(["test accuracy", *(units.percent(runs[b].final["accuracy"]) for b in batches)])
    context.found.table(
        f"Against the batch (synchronous, three workers, {steps:,} updates)",
        ["measure", *(f"batch {b}" for b in batches)],
        rows,
        f"Split: accuracy is of the {softmax.SPLIT}. The old report (S2) has these as curves only.",
    )
    plots = [
        charts.lines(name, "", "batch", [("ours", list(zip(batches, values)))], from_zero=True)
        for name, values in measures.items()
    ]
    context.found.figures.append(("Against the batch", "", plots))
    context.found.numbers["sweep"] = {name: dict(zip(map(str, batches), values)) for name, values in measures.items()}
