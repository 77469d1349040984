# SPDX-License-Identifier: Apache-2.0
"""AlexNet: examples/s by batch and workers, and proof that it learns."""
from .. import charts, figures, old_figures, samples, traces, units
from ..jobs import Job

SPLIT = "synthetic images, made from the seed"
SERVER_BYTES = 1.4e9
MEMORY_SHARE = 0.9  # of the available memory that a cell may use


def worker_bytes(batch):
    """Approximate memory of a worker: parameters, gradients and oneDNN's buffers, and its activations."""
    return 0.8e9 + batch * 13.2e6


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))


def cell(context, workers, batch, steps):
    """A run of `steps` steps after one to warm up, or the text why not. It evaluates at its end only: while worker 0 evaluates,
    the other workers would compute ahead, and its next step would look shorter than it is."""
    needed = workers * worker_bytes(batch) + (SERVER_BYTES if workers > 1 else 0)
    available = available_bytes()
    if needed > available * MEMORY_SHARE:
        return f"skipped: needs about {units.bytes_text(needed)}, {units.bytes_text(available)} are free"
    step = workers * batch
    images = step * (steps + 1)
    flags = {
        "net": "alexnet",
        "data": "synthetic",
        "synthetic_images": images,
        "max_examples": images,
        "threads": context.threads(workers),
    }
    mode = "sync" if workers > 1 else "single"
    job = Job(
        f"workers-{workers}-batch-{batch}",
        "millrace-convnet",
        mode,
        batch,
        flags,
        workers=workers,
        servers=int(workers > 1),
        check_loss=False,
    )
    return context.run(job, keep_model=False)


def warm_rate(run):
    """Examples/s without the first step, by the spans of worker 0."""
    spans = traces.read_trace(run.folder / "trace-worker-0.json")
    steps = [span for span in spans if span.name == "step" and span.args.get("rows")]
    later = sorted(steps, key=lambda span: span.begin_us)[1:]
    return run.job.effective_batch * len(later) / sum(span.duration_us for span in later) * 1e6


def run(context):
    """S2's table, S1's seconds, and the waves of computing and traffic."""
    steps = context.choose(6, 1)
    cells = {}
    for workers in (1, 2, 3):
        for batch in old_figures.ALEXNET_BATCHES:
            cells[workers, batch] = cell(context, workers, batch, steps)
            if isinstance(cells[workers, batch], str):
                context.echo(f"    {workers} workers, batch {batch}: {cells[workers, batch]}")
    found = context.found
    runs = {key: run for key, run in cells.items() if not isinstance(run, str)}
    rates_table(found, cells, steps)
    resource_table(found, runs)
    rates_figure(found, runs)
    if (3, 64) in runs:
        figures.resources(found, {"3 workers, batch 64": runs[3, 64]}, "Waves: compute, then traffic")
    learn = learns(context)
    found.figures.append(figures.net_graph(context, "alexnet"))
    skipped = [f"{w} workers, batch {b}: {text}" for (w, b), text in cells.items() if isinstance(text, str)]
    found.notes += skipped
    found.notes.append(
        "Models (244 MB each) are not kept. The table's runs are too short to learn 1,000 classes; that the net learns"
        " is shown by the run “learns”."
    )
    found.numbers["examples_per_s"] = {f"{w} workers, batch {b}": warm_rate(run) for (w, b), run in runs.items()}
    if (1, 128) in runs:
        found.headlines.append(
            (f"{units.number(warm_rate(runs[1, 128]))}/s", "images, 1 worker, batch 128, 2 cores (old: 42.3 on 20)")
        )
    found.headlines.append(
        (
            f"{learn.rows[0]['loss']:.2f} → {learn.final['loss']:.2f}",
            f"training loss in {learn.updates} updates: it learns",
        )
    )


def rates_table(found, cells, steps):
    rows = []
    for (workers, batch), run in cells.items():
        old = old_figures.ALEXNET_S2[workers][old_figures.ALEXNET_BATCHES.index(batch)]
        if isinstance(run, str):
            rows.append([workers, batch, f"{workers * batch:,}", "–", run, old, "–"])
        else:
            rows.append(
                [
                    workers,
                    batch,
                    f"{run.job.effective_batch:,}",
                    f"{run.updates:,}",
                    units.number(warm_rate(run)),
                    old,
                    f"{run.final['loss']:.3f}",
                ]
            )
    columns = [
        "workers",
        "batch",
        "effective batch",
        "updates",
        "examples/s",
        "old (S2) examples/s",
        "training loss",
    ]
    s1 = ", ".join(f"{seconds} s at batch {batch}" for batch, seconds in old_figures.ALEXNET_S1_SECONDS.items())
    note = (
        f"Split: {SPLIT}, training. The mean of {steps} step{'s' * (steps > 1)} after one to warm up. Old: each worker"
        " on a separate host with 20 cores; ours share this host's cores with each other and with the server, so"
        " that more workers share the same computing and add 244 MB of traffic each way and step. S1 on four hosts:"
        f" {s1} (the report does not give the number of images)."
    )
    found.table("Examples/s", columns, rows, note)


def resource_table(found, runs):
    rows = []
    for (workers, batch), run in runs.items():
        for process, own in run.samples.items():
            rows.append(
                [
                    workers,
                    batch,
                    process,
                    units.percent(own.mean_rate(samples.CPU), 0),
                    units.number(own.peak_memory() / 1e6),
                    units.number(own.mean_rate(samples.PACKETS)),
                    units.number(own.mean_rate(samples.RECEIVED) / 1e6),
                    units.number(own.mean_rate(samples.SENT) / 1e6),
                ]
            )
    columns = [
        "workers",
        "batch",
        "process",
        "CPU (100 % = a core)",
        "peak memory MB",
        "packets/s in and out",
        "received MB/s",
        "sent MB/s",
    ]
    found.table(
        "Processes",
        columns,
        rows,
        "Means over the whole run, start and evaluation included. S2 has these for each host, as curves only.",
    )


def rates_figure(found, runs):
    batches = old_figures.ALEXNET_BATCHES
    rate = lambda w, b: warm_rate(runs[w, b]) if (w, b) in runs else None
    plots = []
    for workers in (1, 2, 3):
        name = f"{workers} worker{'s' * (workers > 1)}"
        series = [
            ("ours, 1 host", [rate(workers, b) for b in batches]),
            ("old (S2)", list(old_figures.ALEXNET_S2[workers])),
        ]
        plots.append(charts.bars(name, "examples/s", [f"batch {b}" for b in batches], series))
    found.figures.append(("Examples/s", f"Old: {', '.join(str(w) for w in (1, 2, 3))} hosts of 20 cores.", plots))


def learns(context):
    """Ten classes of synthetic images, trained until the loss is half."""
    images, epochs = context.choose((320, 8), (160, 8))
    flags = {
        "net": "alexnet",
        "data": "synthetic",
        "num_classes": 10,
        "synthetic_images": images,
        "epochs": epochs,
        "eval_every": images,
    }
    run = context.run(Job("learns", "millrace-convnet", "single", 32, flags, profile=False), keep_model=False)
    found = context.found
    first, last = run.rows[0]["loss"], run.final["loss"]
    text = (
        f"training loss {first:.3f} in the first epoch, {last:.3f} in the last of {epochs}; training accuracy"
        f" {units.percent(run.final['train_accuracy'], 1)}"
    )
    found.check("AlexNet learns: its loss falls by half", last < first / 2, text, 7)
    if not context.quick:
        found.check("AlexNet learns: training accuracy passes 90 %", run.final["train_accuracy"] > 0.9, text, 7)
    plot = [(row["step"], row["loss"]) for row in run.rows]
    accuracy = [(row["step"], row["train_accuracy"]) for row in run.rows]
    found.figures.append(
        (
            "It learns",
            f"{images} synthetic images of 10 classes, batch 32, training split.",
            [
                charts.lines("training loss", "nats", "updates", [("loss", plot)], from_zero=True),
                charts.lines("training accuracy", "share right", "updates", [("accuracy", accuracy)], from_zero=True),
            ],
        )
    )
    return run
