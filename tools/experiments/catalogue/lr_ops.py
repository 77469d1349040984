"""S4's per-op table, at batch 10 and 100."""
from .. import old_figures, traces, units
from .clicks import DENSE_BYTES, FIELDS
from ..jobs import Job


def run(context):
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
        text = (
            f"at most {most:,} keys a step, {batch} rows have {batch * FIELDS:,} indices; the gradient is"
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
        op_row("sorted unique keys (beside training)", "compact", tables, None),
        op_row("decoding (beside training)", "decode", tables, None),
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
        "Medians of all steps (training split; nothing is tested). The old row of sigmoid and error is the sum of mul"
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
