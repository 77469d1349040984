# SPDX-License-Identifier: Apache-2.0
"""S4's per-op table at batch 10 and 100, and its timelines: a step on a worker, a synchronous round on all processes."""
from .. import figures, old_figures, traces, units
from ..data import DENSE_BYTES, FIELDS, RAW_BYTES_PER_KEY
from ..jobs import Job


def per_op(context):
    """The old per-op table, at batch 10 and 100."""
    flags, _ = context.data.clicks()
    flags = {name: flags[name] for name in ("train", "num_features")}
    found = context.found
    tables = {}
    for batch in (10, 100):
        more_flags = {"max_examples": context.choose(200_000, 50_000), "kernel": "native", "threads": 1, "optimizer": "sgd"}
        run = context.run(Job(f"batch-{batch}", "millrace-lr", "single", batch, {**flags, **more_flags}))
        tables[batch] = traces.op_table(traces.read_traces(run.folder))
        most = tables[batch]["push"].most_keys
        text = (
            f"at most {most:,} keys per step, {batch} rows have {batch * FIELDS:,} indices; the gradient is"
            f" {units.bytes_text(most * 4)}, dense it would be {units.bytes_text(DENSE_BYTES)}"
        )
        found.check(f"batch {batch}: the gradient has touched weights only", 0 < most <= batch * FIELDS, text, 2)
    old = {name: ms for name, ms in old_figures.LR_OPS_MS}
    small = sum(ms for name, ms in old_figures.LR_OPS_MS if name in ("mul", "sub", "sigmoid"))
    rows = [
        op_row("X·w", "margins", tables, old["X·W"]),
        op_row("sigmoid, error", "loss_residuals", tables, small),
        op_row("Xᵀ·e", "gradient", tables, old["Xᵀ·e"]),
        ["reduce_sum", "nothing dense to reduce", "0", "0", "0", "0", units.number(old["reduce_sum"] * 1e3), "–"],
        op_row("weights of the keys", "pull", tables, None),
        op_row("update of the keys", "push", tables, None),
        op_row("sorted unique keys (in parallel to training)", "compact", tables, None),
        op_row("decoding (in parallel to training)", "decode", tables, None),
    ]
    columns = [
        "op",
        "span",
        "batch 10: median µs",
        "mean µs",
        "batch 100: median µs",
        "mean µs",
        "old (S4), batch 10: µs",
        "times faster",
    ]
    note = (
        "Medians of all steps (training split; no evaluation). The old row of sigmoid and error is the sum of mul"
        " .03, sigmoid .009, sub .013 and mul .009 ms. Each run folder has millrace-report's own table in report.txt."
    )
    found.table("Per-op table", columns, rows, note)
    total = sum(tables[10][name].p50_us for name in ("margins", "loss_residuals", "gradient", "pull", "push"))
    old_total = sum(ms for _, ms in old_figures.LR_OPS_MS)
    found.numbers["ops"] = {
        str(batch): {name: vars(op) for name, op in table.items()} for batch, table in tables.items()
    }
    found.headlines += [
        (
            f"{units.number(tables[10]['gradient'].p50_us)} µs",
            "Xᵀ·e at batch 10 (old: 80,910 µs, and 42,450 to reduce it)",
        ),
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


def one_round(context):
    """One synchronous round at batch 20, on all processes."""
    flags, _ = context.data.clicks()
    flags = {name: flags[name] for name in ("train", "num_features")}
    more_flags = {"max_examples": 60_000, "threads": 1}
    batch = old_figures.LR["round_batch"]
    run = context.run(Job("sync-batch-20", "millrace-lr", "sync", batch, {**flags, **more_flags}, workers=3, servers=1))
    found = context.found
    spans = traces.read_traces(run.folder)
    begin, length = figures.typical_step(spans, "worker-1")
    found.figures.append(
        (
            "One round",
            "The step of worker 1 that is at the median; point at a span for its numbers.",
            [
                figures.window("one training step on a worker", spans, begin, length, ["worker-1"]),
                figures.window("one round, seen from the server and all workers", spans, begin, length),
            ],
        )
    )
    old = old_figures.LR
    wire = run.worker_wire(1)
    size = wire["bytes"] / wire["exchanges"]
    dense_s = 2 * DENSE_BYTES * 8 / (old["network_mbit_per_s"] * 1e6)
    said_s = 2 * old["said_model_mb"] / old["said_network_mb_per_s"]
    rows = [
        ["a round", units.seconds(length / 1e6), f"{old['round_s']} s"],
        ["bytes of the model, dense", units.bytes_text(DENSE_BYTES), f"{old['said_model_mb']} MB"],
        ["bytes per round of a worker, in both directions", units.bytes_text(size), units.bytes_text(2 * DENSE_BYTES)],
        [
            "time of two dense models at 349 Mbit/s",
            units.seconds(dense_s),
            f"(at “350 MB/s”: {said_s:.1f} s, which is not 7 s)",
        ],
    ]
    found.table("One round at batch 20", ["what", "ours, and right", "old (S4)"], rows, "Training split.")
    ratio = dense_s / old["round_s"]
    text = (
        f"2 × {units.bytes_text(DENSE_BYTES)} at 349 Mbit/s are {dense_s:.2f} s, {ratio * 100:.0f} % of the"
        f" {old['round_s']} s; 2 × 257 MB at 350 MB/s would be {said_s:.2f} s"
    )
    found.check("the old round, with units that fit", 0.8 < ratio < 1, text, 1)
    most = batch * FIELDS * RAW_BYTES_PER_KEY
    text = (
        f"{units.bytes_text(size)} per round and worker; {batch * FIELDS} touched weights raw are"
        f" {units.bytes_text(most)}"
    )
    found.check("only touched weights travel", 0 < size <= 1.5 * most, text, 2)
    found.headlines += [
        (units.seconds(length / 1e6), "one round of three workers (old: 7.121 s)"),
        (units.bytes_text(size), f"on the wire for it, each worker (old: {units.bytes_text(2 * DENSE_BYTES)})"),
    ]
    found.numbers["round_s"] = length / 1e6
