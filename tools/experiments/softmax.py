"""Softmax regression on MNIST: four old reports."""
from . import charts, checks, figures, graph, old_figures, samples, units
from .data import MNIST_TEST_IMAGES
from .jobs import Job

SPLIT = "10,000 test images"
RATE = 0.5
LOW, HIGH = 0.90, 0.94  # where softmax regression on MNIST ends


def train(context, name, mode, batch, workers=3, profile=True, **course):
    servers = 0 if mode == "single" else 1
    workers = workers if servers else 1
    flags = {**context.data.mnist(), "net": "softmax", "learning_rate": RATE, "threads": context.threads(workers), **course}
    return context.run(Job(name, "millrace-convnet", mode, batch, flags, workers=workers, servers=servers, profile=profile))


def rate_of(run, columns=samples.NETWORK):
    """Mean of each worker, bytes a second."""
    return [run.samples[name].mean_rate(columns) for name in run.worker_names if name in run.samples]


def listed(values, unit, scale=1):
    return ", ".join(units.number(value * scale) for value in values) + f" {unit}"


def process_table(found, runs, old):
    """CPU, memory and network of every process."""
    rows = []
    for name, run in runs.items():
        for process, own in run.samples.items():
            rows.append(
                [
                    name,
                    process,
                    units.percent(own.mean_rate(samples.CPU), 0),
                    units.number(own.peak_memory() / 1e6),
                    units.number(own.mean_rate(samples.RECEIVED) / 1e6),
                    units.number(own.mean_rate(samples.SENT) / 1e6),
                    units.number(own.mean_rate(samples.PACKETS)),
                    old.get(name, "–") if process in ("worker-0",) else "",
                ]
            )
    columns = ["run", "process", "CPU (100 % = a core)", "memory MB", "received MB/s", "sent MB/s", "packets/s", "old, whole row"]
    found.table("Processes", columns, rows, "Means over the run, memory at its peak; network is the processes' own connections.")


def mode_checks(context, runs):
    """Bytes of both modes, by the servers' count, over the time of training."""
    found, sync, other = context.found, runs["sync"], runs["async"]
    gradients = lambda run: run.updates * (run.job.workers if run.job.mode == "sync" else 1)
    found.checks.append(checks.async_rate(context, sync, other, lambda run: (run.wire()[1], run.training_s), "all workers, while training"))
    found.checks.append(checks.async_bytes(sync.wire()[1], gradients(sync), other.wire()[1], gradients(other)))


def accuracy_checks(found, runs):
    for run in runs.values():
        found.checks.append(checks.test_split(run, MNIST_TEST_IMAGES))
        found.checks.append(checks.accuracy_between(run, LOW, HIGH, SPLIT))


def s0(context):
    """Rate 0.5, batch 200: single, synchronous, asynchronous."""
    epochs = context.choose(50, 6)
    runs = {mode: train(context, mode, mode, 200, epochs=epochs) for mode in ("single", "sync", "async")}
    found, rows = context.found, []
    for mode, run in runs.items():
        old = old_figures.SOFTMAX_S0[mode]
        network = listed(rate_of(run), "Mbit/s", 8e-6) if run.job.servers else "–"
        rows.append([mode, f"{run.job.effective_batch:,}", f"{run.updates:,}", units.percent(run.final["accuracy"]), old["accuracy"], units.seconds(run.wall_s), old["seconds"], network, old["network"]])
    columns = ["mode", "effective batch", "updates", "test accuracy", "old (S0) accuracy", "time", "old time", "network, each worker", "old network"]
    found.table(f"Rate 0.5, batch 200, {epochs} epochs", columns, rows, f"Split: accuracy is of the {SPLIT}. Old: 50 epochs, 3 workers.")
    process_table(found, runs, {})
    figures.learning_curves(found, runs, SPLIT)
    figures.resources(found, {mode: runs[mode] for mode in ("sync", "async")})
    found.figures.append(graph.picture(context, "softmax"))
    mode_checks(context, runs)
    accuracy_checks(found, runs)
    for mode, run in runs.items():
        found.headlines.append((units.percent(run.final["accuracy"]), f"{mode}, {SPLIT} (old: {old_figures.SOFTMAX_S0[mode]['accuracy']})"))


def s1(context):
    """100 epochs on four hosts; asynchronous at three batch sizes."""
    epochs = context.choose(100, 4)
    scale = 100 / epochs
    found, rows, runs = context.found, [], {}
    for mode in ("single", "sync", "async"):
        runs[mode] = run = train(context, mode, mode, 275, epochs=epochs, profile=False)
        rows.append(s1_row(run, epochs, old_figures.SOFTMAX_S1_SECONDS[mode]))
    for batch, old_s in old_figures.SOFTMAX_S1_BATCH_SECONDS.items():
        if batch == 275:
            rows.append(s1_row(runs["async"], epochs, old_s))
            continue
        name = f"async-batch-{batch}"
        runs[name] = train(context, name, "async", batch, epochs=epochs, profile=False)
        rows.append(s1_row(runs[name], epochs, old_s))
    columns = ["mode", "batch", "effective batch", "updates", "test accuracy", "time", "time for 100 epochs", "old (S1): s for 100 epochs"]
    note = f"Split: accuracy is of the {SPLIT}; S1's 98 % was of something else. Ours: 1 server and 3 workers for its 4 hosts, {epochs} epochs"
    note += " (the time for 100 is scaled up)." if scale > 1 else "."
    found.table("Softmax regression on four hosts", columns, rows, note + " The report gives no batch for its three modes: ours is 275.")
    mode_checks(context, runs)
    accuracy_checks(found, {name: runs[name] for name in ("single", "async")})
    batches = list(old_figures.SOFTMAX_S1_BATCH_SECONDS)
    ours = [runs.get(f"async-batch-{batch}", runs["async"]).training_s * scale for batch in batches]
    found.figures.append(("Time against batch", "Asynchronous, 100 epochs.", [charts.bars("time for 100 epochs", "s", [f"batch {b}" for b in batches], [("ours", ours), ("old (S1)", list(old_figures.SOFTMAX_S1_BATCH_SECONDS.values()))])]))
    found.headlines += [(units.seconds(runs[mode].training_s * scale), f"100 epochs, {mode} (old: {old_figures.SOFTMAX_S1_SECONDS[mode]} s)") for mode in ("single", "sync", "async")]


def s1_row(run, epochs, old_s):
    return [
        run.job.mode,
        f"{run.job.batch:,}",
        f"{run.job.effective_batch:,}",
        f"{run.updates:,}",
        units.percent(run.final["accuracy"]),
        units.seconds(run.training_s),
        units.seconds(run.training_s * 100 / epochs),
        old_s,
    ]


def s2(context):
    """6,000 steps with two and three workers, then everything against the batch."""
    steps = context.choose(6000, 1200)
    found, rows, runs = context.found, [], {}
    for mode in ("async", "sync"):
        for workers in (2, 3):
            name = f"{mode}-{workers}"
            runs[name] = run = steps_run(context, name, mode, 100, workers, steps)
            old = old_figures.SOFTMAX_S2[mode, workers]
            rows.append([mode, workers, f"{run.job.effective_batch:,}", f"{run.updates:,}", units.percent(run.final["accuracy"]), units.seconds(run.training_s), units.seconds(run.training_s * 6000 / steps), old["seconds"], listed(rate_of(run), "MB/s", 1e-6), old["network"]])
    columns = ["mode", "workers", "effective batch", "updates", "test accuracy", "time", "time for 6,000 steps", "old (S2) time", "network, each worker", "old network"]
    note = f"Split: accuracy is of the {SPLIT}. {steps:,} steps of ours; the report gives no batch: ours is 100. A synchronous step has a gradient of every worker, an asynchronous one that of one."
    found.table("6,000 steps", columns, rows, note)
    sweep(context, context.choose(2000, 300))
    accuracy_checks(found, {name: runs[name] for name in ("sync-3", "async-3")})
    mode_checks(context, {"sync": runs["sync-3"], "async": runs["async-3"]})
    found.headlines += [(units.seconds(run.training_s * 6000 / steps), f"6,000 steps, {name} workers (old: {old_figures.SOFTMAX_S2[run.job.mode, run.job.workers]['seconds']})") for name, run in runs.items()]


def steps_run(context, name, mode, batch, workers, steps):
    examples = steps * batch * (workers if mode == "sync" else 1)
    return train(context, name, mode, batch, workers, profile=False, epochs=1000, max_examples=examples, eval_every=max(examples // 4, 1))


def sweep(context, steps):
    """Batch 8, 64, 512, synchronous, three workers."""
    batches = (8, 64, 512)
    runs = {batch: steps_run(context, f"sync-batch-{batch}", "sync", batch, 3, steps) for batch in batches}
    mean = lambda values: sum(values) / len(values)
    measures = {
        "runtime, ms a step": [runs[b].training_s / runs[b].updates * 1e3 for b in batches],
        "memory of a worker, MB": [mean([runs[b].samples[w].peak_memory() / 1e6 for w in runs[b].worker_names]) for b in batches],
        "CPU of a worker, %": [mean(rate_of(runs[b], samples.CPU)) * 100 for b in batches],
        "received by a worker, MB/s": [mean(rate_of(runs[b], samples.RECEIVED)) / 1e6 for b in batches],
        "sent by a worker, MB/s": [mean(rate_of(runs[b], samples.SENT)) / 1e6 for b in batches],
        "images/s": [runs[b].examples_per_s for b in batches],
    }
    rows = [[name, *map(units.number, values)] for name, values in measures.items()]
    rows.append(["effective batch", *(f"{runs[b].job.effective_batch:,}" for b in batches)])
    rows.append(["test accuracy", *(units.percent(runs[b].final["accuracy"]) for b in batches)])
    context.found.table(f"Against the batch (synchronous, three workers, {steps:,} updates)", ["measure", *(f"batch {b}" for b in batches)], rows, f"Split: accuracy is of the {SPLIT}. The old report (S2) has these as curves only.")
    plots = [charts.lines(name, "", "batch", [("ours", list(zip(batches, values)))], from_zero=True) for name, values in measures.items()]
    context.found.figures.append(("Against the batch", "", plots))
    context.found.numbers["sweep"] = {name: dict(zip(map(str, batches), values)) for name, values in measures.items()}


def s3(context):
    """Batch 128, 20 epochs, with the resources of each process."""
    epochs = context.choose(20, 4)
    runs = {mode: train(context, mode, mode, 128, epochs=epochs) for mode in ("single", "sync", "async")}
    found, rows = context.found, []
    for mode, run in runs.items():
        old = old_figures.SOFTMAX_S3[mode]
        cpu = listed(rate_of(run, samples.CPU), "%", 100)
        memory = listed([run.samples[w].peak_memory() for w in run.worker_names], "MB", 1e-6)
        network = listed(rate_of(run), "MB/s", 1e-6) if run.job.servers else "–"
        rows.append([mode, f"{run.job.effective_batch:,}", f"{run.updates:,}", units.percent(run.final["accuracy"]), old["accuracy"], cpu, old["cpu"], memory, old["memory"], network, old["network"]])
    columns = ["mode", "effective batch", "updates", "test accuracy", "old (S3) accuracy", "CPU, workers", "old CPU", "memory, workers", "old memory", "network, workers", "old network"]
    found.table(f"Batch 128, {epochs} epochs", columns, rows, f"Split: accuracy is of the {SPLIT}. Old: 20 epochs. CPU: 100 % is one core.")
    process_table(found, runs, {mode: f"CPU {old['cpu']}; {old['memory']}; network {old['network']}" for mode, old in old_figures.SOFTMAX_S3.items()})
    figures.learning_curves(found, runs, SPLIT)
    mode_checks(context, runs)
    accuracy_checks(found, runs)
    found.headlines += [(units.percent(run.final["accuracy"]), f"{mode}, {SPLIT} (old: {old_figures.SOFTMAX_S3[mode]['accuracy']})") for mode, run in runs.items()]
