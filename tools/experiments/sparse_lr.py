"""S4: sparse logistic regression on 33,762,578 features, one server and three workers."""
from . import charts, checks, figures, old_figures, samples, traces, units
from .jobs import Job

FIELDS = 39  # indices a row
DENSE_BYTES = old_figures.NUM_FEATURES * 4
RAW_BYTES_A_KEY = 12  # a 64-bit key and a float32
METRICS = ("accuracy", "precision", "recall", "auc", "logloss", "ne", "calibration")


def modes(context):
    """Synchronous and asynchronous training with the old settings."""
    flags, facts = context.data.clicks()
    course = {"test_batch_size": 20, "eval_every": 20_000, "max_examples": 200_000, "threads": 1}
    runs = {}
    for mode in ("sync", "async"):
        runs[mode] = context.run(Job(mode, "millrace-lr", mode, 100, {**flags, **course}, workers=3, servers=1))
    found = context.found
    split = f"{facts['test']['rows']:,} test rows"
    quality_table(found, runs, facts, split)
    curves(found, runs, split)
    workers_table(found, runs)
    peaks_table(found, runs)
    figures.resources(found, runs)
    verdicts(context, runs)
    mode_checks(context, runs)
    split_checks(context, runs, facts, split)
    sync, other = runs["sync"], runs["async"]
    found.headlines += [
        (f"{units.number(sync.examples_per_s)}/s", "examples, sync (old: 33/s on 4 hosts)"),
        (f"{units.number(other.examples_per_s)}/s", "examples, async"),
        (units.percent(other.final["accuracy"]), f"accuracy, async, {split}"),
        (units.bytes_text(per_exchange(sync)), f"a worker's step, both ways (dense: {units.bytes_text(2 * DENSE_BYTES)})"),
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
    old = ["“precision”, a curve only"] + ["–"] * (len(METRICS) - 1) + ["about 100 min", "33"]
    rows = [[*row, figure] for row, figure in zip(rows, old)]
    note = f"Split: metrics are of the {split}, {test['positives'] * 100:.1f} % of them positive; examples/s of the training split."
    found.table("After 200,000 training points", ["metric", "sync", "async", "to compare", "old (S4)"], rows, note)


def curves(found, runs, split):
    plots = []
    for name, unit in (("accuracy", "share right"), ("precision", "of predicted positives"), ("logloss", "nats"), ("auc", "")):
        series = [(mode, [(row["examples"], row[name]) for row in run.rows]) for mode, run in runs.items()]
        plots.append(charts.lines(f"test {name}", unit, "training points", series))
    found.figures.append(("Curves", f"Against training points, on the {split}. The old “precision” is the first of them: accuracy. Asynchronous workers train on while worker 0 tests, so its tests may lie far apart.", plots))


def workers_table(found, runs):
    rows = []
    for mode, run in runs.items():
        for worker, examples, pushes, dropped, rate, waited, where in run.worker_rows():
            wire = run.worker_wire(int(worker))
            rows.append([mode, f"worker {worker}", where, examples, pushes, dropped, rate, f"{waited} s", units.bytes_text(wire["bytes"])])
    columns = ["mode", "worker", "placement", "examples", "gradients", "dropped", "examples/s", "waited for", "bytes"]
    found.table("Workers", columns, rows, "The server ran on the same host. Bytes of worker 0 have its tests in them.")


def peaks_table(found, runs):
    cells = {mode: peak_cells(run) for mode, run in runs.items()}
    rows = []
    for name, (old_sync, old_async) in old_figures.LR_PEAKS.items():
        rows.append([name, cells["sync"][name], cells["async"][name], old_sync, old_async])
    rows.append(["reads, cached or not", cells["sync"]["reads"], cells["async"]["reads"], "–", "–"])
    note = (
        "Peaks of any 50 ms, all processes of the job together; CPU and memory in percent of the host, network at the server, both directions. "
        "The old network figures are megabits a second, not megabytes: 135 MB twice at 349 Mbit/s are 6.2 of the 7.1 s of a round."
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


def verdicts(context, runs):
    rows = []
    for mode, run in runs.items():
        verdict = context.verdict(run)
        rows.append([mode, verdict["sentence"], old_figures.LR_VERDICT[mode]])
        for line in verdict["evidence"]:
            rows.append(["", line, ""])
        context.found.numbers[f"{mode}_verdict"] = {key: verdict[key] for key in ("bottleneck", "share", "speedup_without")}
    context.found.table("What the runs were bound by", ["mode", "verdict of millrace-report, and its proof", "old verdict"], rows)


def plain_workers(run):
    """Bytes, exchanges and the longest time of the workers that do not test."""
    parts = [run.worker_wire(worker) for worker in range(1, run.job.workers)]
    return sum(p["bytes"] for p in parts), sum(p["exchanges"] for p in parts), max(max(p["seconds"] for p in parts), 1e-3)


def per_exchange(run):
    total, exchanges, _ = plain_workers(run)
    return total / exchanges


def mode_checks(context, runs):
    found = context.found
    sync, other = plain_workers(runs["sync"]), plain_workers(runs["async"])
    found.checks.append(checks.async_rate(context, runs["sync"], runs["async"], lambda run: plain_workers(run)[::2], "workers 1 and 2, which do not test"))
    found.checks.append(checks.async_bytes(sync[0], sync[1], other[0], other[1]))
    most = 100 * FIELDS * RAW_BYTES_A_KEY
    for mode, run in runs.items():
        size = per_exchange(run)
        text = f"{units.bytes_text(size)} a step both ways; {100 * FIELDS:,} touched weights raw are {units.bytes_text(most)}, a dense model {units.bytes_text(DENSE_BYTES)}"
        found.check(f"{mode}: only touched weights travel", 0 < size <= 1.5 * most, text, 2)


def split_checks(context, runs, facts, split):
    """Scores the test files anew with each saved model, by another program."""
    found = context.found
    flags, _ = context.data.clicks()
    for mode, run in runs.items():
        model = run.folder / "model" / "model.bin"
        output = context.tool("millrace-predict", f"--model={model}", "--metrics", "--out=/dev/null", flags["test"])
        again = predicted_metrics(output.lines)
        text = f"run: logloss {run.final['logloss']:.6f}, millrace-predict on the {split}: {again.get('logloss', float('nan')):.6f}"
        found.check(f"{mode}: the figures are of the test split", abs(again.get("logloss", 0) - run.final["logloss"]) < 1e-4, text, 8)
        missing = [name for name in METRICS if run.final.get(name) is None]
        base = 1 - facts["test"]["positives"]
        accuracy, precision = run.final["accuracy"], run.final["precision"]
        text = f"accuracy {accuracy:.4f}, precision {precision:.4f}; always “no” is right on {base:.4f}; all of {', '.join(METRICS)} reported"
        found.check(f"{mode}: accuracy and precision under their names", not missing and accuracy > base and accuracy != precision, text, 3)


def predicted_metrics(lines):
    """The numbers that millrace-predict --metrics prints, a name and a value a line."""
    pairs = [line.split() for line in lines]
    return {pair[0]: float(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] in METRICS}


def ops(context):
    """The old per-op table, at batch 10 and 100."""
    flags, _ = context.data.clicks()
    flags = {name: flags[name] for name in ("train", "num_features")}
    found = context.found
    tables = {}
    for batch in (10, 100):
        course = {"max_examples": context.choose(200_000, 50_000), "kernel": "native", "threads": 1, "optimizer": "sgd"}
        run = context.run(Job(f"batch-{batch}", "millrace-lr", "single", batch, {**flags, **course}))
        tables[batch] = traces.op_table(traces.read_traces(run.folder))
        most = tables[batch]["push"].most_keys
        text = f"at most {most:,} keys a step, {batch} rows have {batch * FIELDS:,} indices; the gradient is {units.bytes_text(most * 4)}, dense it would be {units.bytes_text(DENSE_BYTES)}"
        found.check(f"batch {batch}: the gradient has touched weights only", 0 < most <= batch * FIELDS, text, 2)
    old = {name: ms for name, ms in old_figures.LR_OPS_MS}
    small = sum(ms for name, ms in old_figures.LR_OPS_MS if name in ("mul", "sub", "sigmoid"))
    rows = [
        op_row("X·w", "margins", tables, old["X·W"]),
        op_row("sigmoid, error", "loss_slopes", tables, small),
        op_row("Xᵀ·e", "gradient", tables, old["Xᵀ·e"]),
        ["reduce_sum", "nothing dense to reduce", "0", "0", "0", "0", units.number(old["reduce_sum"] * 1e3), "–"],
        op_row("weights of the keys", "pull", tables, None),
        op_row("update of the keys", "push", tables, None),
        op_row("sorted unique keys (beside training)", "compact", tables, None),
        op_row("decoding (beside training)", "decode", tables, None),
    ]
    columns = ["op", "span", "batch 10: median µs", "mean µs", "batch 100: median µs", "mean µs", "old (S4), batch 10: µs", "times faster"]
    note = (
        "Medians of all steps (training split; nothing is tested). The old row of sigmoid and error is the sum of mul .03, sigmoid .009, sub .013 and mul .009 ms. "
        "Each run folder has millrace-report's own table in report.txt."
    )
    found.table("Per-op table", columns, rows, note)
    total = sum(tables[10][name].p50_us for name in ("margins", "loss_slopes", "gradient", "pull", "push"))
    old_total = sum(ms for _, ms in old_figures.LR_OPS_MS)
    found.numbers["ops"] = {str(batch): {name: vars(op) for name, op in table.items()} for batch, table in tables.items()}
    found.headlines += [
        (f"{units.number(tables[10]['gradient'].p50_us)} µs", "Xᵀ·e at batch 10 (old: 80,910 µs, and 42,450 to reduce it)"),
        (f"{units.number(total)} µs", f"all ops of a step at batch 10 (old: {old_total * 1e3:,.0f} µs)"),
        (f"{tables[100]['push'].most_keys:,}", "weights touched at most by 100 rows, of 33,762,578"),
    ]


def op_row(what, span, tables, old_ms):
    cells = []
    for batch in (10, 100):
        op = tables[batch].get(span)
        cells += [units.number(op.p50_us), units.number(op.mean_us)] if op else ["–", "–"]
    faster = f"{old_ms * 1e3 / tables[10][span].p50_us:,.0f}" if old_ms and tables[10][span].p50_us else "–"
    return [what, span, *cells, units.number(old_ms * 1e3) if old_ms else "–", faster]


def round_of_a_job(context):
    """One synchronous round at batch 20, on all processes."""
    flags, _ = context.data.clicks()
    flags = {name: flags[name] for name in ("train", "num_features")}
    course = {"max_examples": 24_000, "threads": 1}
    batch = old_figures.LR["round_batch"]
    run = context.run(Job("sync-batch-20", "millrace-lr", "sync", batch, {**flags, **course}, workers=3, servers=1))
    found = context.found
    spans = traces.read_traces(run.folder)
    begin, length = figures.typical_step(spans, "worker-1")
    found.figures.append(("One round", "The step of worker 1 that is at the median; point at a span for its numbers.", [
        figures.window("one training step on a worker", spans, begin, length, ["worker-1"]),
        figures.window("one round, seen from the server and all workers", spans, begin, length),
    ]))
    old = old_figures.LR
    wire = run.worker_wire(1)
    size = wire["bytes"] / wire["exchanges"]
    dense_s = 2 * DENSE_BYTES * 8 / (old["network_mbit_per_s"] * 1e6)
    said_s = 2 * old["said_model_mb"] / old["said_network_mb_per_s"]
    rows = [
        ["a round", units.seconds(length / 1e6), f"{old['round_s']} s"],
        ["bytes of the model, dense", units.bytes_text(DENSE_BYTES), f"{old['said_model_mb']} MB"],
        ["bytes of a worker's round, both ways", units.bytes_text(size), units.bytes_text(2 * DENSE_BYTES)],
        ["time of two dense models at 349 Mbit/s", units.seconds(dense_s), f"(at “350 MB/s”: {said_s:.1f} s, which is not 7 s)"],
    ]
    found.table("One round at batch 20", ["what", "ours, and right", "old (S4)"], rows, "Training split.")
    ratio = dense_s / old["round_s"]
    text = f"2 × {units.bytes_text(DENSE_BYTES)} at 349 Mbit/s are {dense_s:.2f} s, {ratio * 100:.0f} % of the {old['round_s']} s; 2 × 257 MB at 350 MB/s would be {said_s:.2f} s"
    found.check("the old round, with units that fit", 0.8 < ratio < 1, text, 1)
    most = batch * FIELDS * RAW_BYTES_A_KEY
    text = f"{units.bytes_text(size)} a round and worker; {batch * FIELDS} touched weights raw are {units.bytes_text(most)}"
    found.check("only touched weights travel", 0 < size <= 1.5 * most, text, 2)
    found.headlines += [
        (units.seconds(length / 1e6), "one round of three workers (old: 7.121 s)"),
        (units.bytes_text(size), f"on the wire for it, each worker (old: {units.bytes_text(2 * DENSE_BYTES)})"),
    ]
    found.numbers["round_s"] = length / 1e6
