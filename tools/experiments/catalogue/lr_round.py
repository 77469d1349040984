"""S4's timelines: a training step on a worker, and a synchronous round seen from the server."""
from .. import figures, old_figures, traces, units
from .clicks import DENSE_BYTES, FIELDS, RAW_BYTES_A_KEY
from ..jobs import Job


def run(context):
    """One synchronous round at batch 20, on all processes."""
    flags, _ = context.data.clicks()
    flags = {name: flags[name] for name in ("train", "num_features")}
    course = {"max_examples": 60_000, "threads": 1}
    batch = old_figures.LR["round_batch"]
    run = context.run(Job("sync-batch-20", "millrace-lr", "sync", batch, {**flags, **course}, workers=3, servers=1))
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
        ["bytes of a worker's round, both ways", units.bytes_text(size), units.bytes_text(2 * DENSE_BYTES)],
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
    most = batch * FIELDS * RAW_BYTES_A_KEY
    text = (
        f"{units.bytes_text(size)} a round and worker; {batch * FIELDS} touched weights raw are"
        f" {units.bytes_text(most)}"
    )
    found.check("only touched weights travel", 0 < size <= 1.5 * most, text, 2)
    found.headlines += [
        (units.seconds(length / 1e6), "one round of three workers (old: 7.121 s)"),
        (units.bytes_text(size), f"on the wire for it, each worker (old: {units.bytes_text(2 * DENSE_BYTES)})"),
    ]
    found.numbers["round_s"] = length / 1e6
