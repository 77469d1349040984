# SPDX-License-Identifier: Apache-2.0
"""LeNet on MNIST: the grid of batches and workers, Adam, and the batch sweep."""
from .. import charts, checks, figures, old_figures, samples, units
from ..data import MNIST_TEST_IMAGES
from ..jobs import Job

SPLIT = "10,000 test images"
PROFILE_STEPS = "20:220"  # out of thousands


def train(context, name, workers, batch, epochs, profile=False, **more_flags):
    mode = "sync" if workers > 1 else "single"
    flags = {**context.data.mnist(), "net": "lenet", "epochs": epochs, "threads": context.threads(workers), **more_flags}
    shape = {"workers": workers, "servers": int(workers > 1)}
    job = Job(name, "millrace-convnet", mode, batch, flags, profile=profile, profile_steps=PROFILE_STEPS, **shape)
    run = context.run(job)
    context.found.checks.append(checks.test_split(run, MNIST_TEST_IMAGES))
    return run


def network(run):
    """The mean over the workers, in bytes per second and both directions."""
    rates = [run.samples[name].mean_rate(samples.NETWORK) for name in run.worker_names if name in run.samples]
    return sum(rates) / len(rates) if run.job.servers and rates else None


def grid(context):
    """S0: plain SGD at a fixed rate, so that the effective batch decides."""
    epochs = context.choose(6, 1)
    found, runs = context.found, {}
    batches = old_figures.LENET_BATCHES
    more_flags = {"optimizer": "sgd", "learning_rate": 0.05, "schedule": "constant", "eval_every": 60_000 if epochs > 1 else 30_000}
    for workers in (1, 2, 3):
        for batch in batches:
            runs[workers, batch] = train(context, f"workers-{workers}-batch-{batch}", workers, batch, epochs, **more_flags)
    rows = []
    for batch_index, batch in enumerate(batches):
        for workers in (1, 2, 3):
            run = runs[workers, batch]
            old = old_figures.LENET_S0.get(workers)
            rows.append(
                [
                    batch,
                    workers,
                    f"{run.job.effective_batch:,}",
                    f"{run.updates:,}",
                    units.percent(run.final["accuracy"]),
                    units.percent(old[batch_index], 1) if old else "–",
                    units.seconds(run.training_s),
                    units.number(run.examples_per_s),
                    units.bytes_text(network(run)) + "/s" if run.job.servers else "–",
                ]
            )
    columns = [
        "batch",
        "workers",
        "effective batch",
        "updates",
        "test accuracy",
        "old (S0) accuracy",
        "time",
        "images/s",
        "network, each worker",
    ]
    note = (
        f"Split: accuracy is of the {SPLIT}. {epochs} epoch{'s' * (epochs > 1)} of plain SGD at rate 0.05 (the report"
        f" names no rate). Old: 6 epochs, {old_figures.LENET_S0_SECONDS}; the report has no figures of two hosts. All"
        f" workers share {len_cores(runs)} cores here: more of them cannot be faster."
    )
    found.table("LeNet grid", columns, rows, note)
    series = [
        (f"{w} workers" if w > 1 else "1 worker", [runs[w, b].final["accuracy"] for b in batches]) for w in (1, 2, 3)
    ]
    old_series = [(f"old, {w} host{'s' * (w > 1)}", list(old_figures.LENET_S0[w])) for w in (1, 3)]
    by_batch = sorted((run.job.effective_batch, run.final["accuracy"]) for run in runs.values())
    found.figures.append(
        (
            "Accuracy",
            f"On the {SPLIT}.",
            [
                charts.bars(
                    "test accuracy by batch",
                    "share right",
                    [f"batch {b}" for b in batches],
                    series + old_series,
                    from_zero=False,
                ),
                charts.lines(
                    "test accuracy by effective batch",
                    "share right",
                    "effective batch",
                    [("ours, all cells", by_batch)],
                ),
            ],
        )
    )
    best, worst = runs[1, 64], runs[3, 512]
    text = (
        f"effective batch {best.job.effective_batch}, {best.updates:,} updates:"
        f" {units.percent(best.final['accuracy'])}; {worst.job.effective_batch:,}, {worst.updates:,} updates:"
        f" {units.percent(worst.final['accuracy'])}"
    )
    found.check("accuracy falls with the effective batch", best.final["accuracy"] > worst.final["accuracy"], text, 6)
    same = [runs[1, 128], runs[2, 64]]
    apart = abs(same[0].final["accuracy"] - same[1].final["accuracy"])
    text = (
        f"effective batch 128: one worker {units.percent(same[0].final['accuracy'])}, two workers"
        f" {units.percent(same[1].final['accuracy'])}"
    )
    found.check("the effective batch decides, not the number of workers", apart < 0.01, text, 6)
    found.headlines += [
        (units.percent(best.final["accuracy"]), f"1 worker, batch 64, {epochs} epochs (old: 98.0 %)"),
        (units.percent(worst.final["accuracy"]), "3 workers, batch 512 (old: 84.0 %)"),
        (f"{units.number(runs[1, 512].examples_per_s)}/s", "images, 1 worker, batch 512"),
    ]


def len_cores(runs):
    return next(iter(runs.values())).facts["host"]["cores"]


def adam(context):
    """S3: Adam, batch 64."""
    epochs = context.choose(20, 2)
    found, rows, runs = context.found, [], {}
    for workers, (old_accuracy, old_s) in old_figures.LENET_S3.items():
        name = f"workers-{workers}"
        runs[name] = run = train(context, name, workers, 64, epochs, profile=True, eval_every=20_000)
        rows.append(
            [
                workers,
                f"{run.job.effective_batch:,}",
                f"{run.updates:,}",
                units.percent(run.final["accuracy"]),
                old_accuracy,
                units.seconds(run.training_s / epochs),
                f"{old_s} s",
                units.number(run.examples_per_s),
            ]
        )
    columns = [
        "workers",
        "effective batch",
        "updates",
        "test accuracy",
        "old (S3) accuracy",
        "time per epoch",
        "old time per epoch",
        "images/s",
    ]
    found.table(
        f"Adam, rate 0.003 falling to 0, batch 64, {epochs} epochs",
        columns,
        rows,
        f"Split: accuracy is of the {SPLIT}. Old: 20 epochs.",
    )
    figures.learning_curves(found, runs, SPLIT)
    figures.resources(found, {"3 workers": runs["workers-3"]})
    found.figures.append(figures.net_graph(context, "lenet"))
    low = 0.97 if context.quick else 0.985
    for run in runs.values():
        found.checks.append(checks.accuracy_between(run, low, 1.0, SPLIT))
    found.headlines += [
        (
            units.percent(run.final["accuracy"]),
            f"{name.replace('-', ' ')}, {SPLIT} (old: {old_figures.LENET_S3[run.job.workers][0]})",
        )
        for name, run in runs.items()
    ]


def batches(context):
    """S3: three workers, batch 8, 64, 512."""
    epochs = context.choose(20, 1)
    found, rows, runs = context.found, [], {}
    for batch, (old_accuracy, old_s, old_network) in old_figures.LENET_S3_BATCH.items():
        runs[batch] = run = train(context, f"batch-{batch}", 3, batch, epochs, eval_every=20_000 if epochs == 1 else 0)
        rows.append(
            [
                batch,
                f"{run.job.effective_batch:,}",
                f"{run.updates:,}",
                units.percent(run.final["accuracy"]),
                old_accuracy,
                units.seconds(run.training_s / epochs),
                f"{old_s} s",
                units.bytes_text(network(run)) + "/s",
                old_network,
            ]
        )
    columns = [
        "batch",
        "effective batch",
        "updates",
        "test accuracy",
        "old (S3) accuracy",
        "time per epoch",
        "old time per epoch",
        "network, each worker",
        "old network",
    ]
    found.table(
        f"Three workers, Adam, {epochs} epoch{'s' * (epochs > 1)}",
        columns,
        rows,
        f"Split: accuracy is of the {SPLIT}. Old: 20 epochs.",
    )
    names = [f"batch {batch}" for batch in runs]
    found.figures.append(
        (
            "Against the batch",
            "",
            [
                charts.bars(
                    "time per epoch",
                    "s",
                    names,
                    [
                        ("ours", [run.training_s / epochs for run in runs.values()]),
                        ("old (S3)", [old[1] for old in old_figures.LENET_S3_BATCH.values()]),
                    ],
                ),
                charts.bars(
                    "bytes an epoch",
                    "MB, all workers",
                    names,
                    [("ours", [run.wire()[1] / epochs / 1e6 for run in runs.values()])],
                ),
            ],
        )
    )
    figures.learning_curves(found, {f"batch {batch}": run for batch, run in runs.items()}, SPLIT, x="examples")
    most, least = runs[8].wire()[1], runs[512].wire()[1]
    text = (
        f"an epoch at batch 8 moves {units.bytes_text(most / epochs)}, at batch 512 {units.bytes_text(least / epochs)}:"
        f" {most / least:.0f} times; updates {runs[8].updates / runs[512].updates:.0f} times"
    )
    found.check(
        "traffic follows the number of updates",
        abs(most / least / (runs[8].updates / runs[512].updates) - 1) < 0.1,
        text,
        5,
    )
    found.headlines += [
        (
            units.seconds(run.training_s / epochs),
            f"an epoch at batch {batch} (old: {old_figures.LENET_S3_BATCH[batch][1]} s)",
        )
        for batch, run in runs.items()
    ]
