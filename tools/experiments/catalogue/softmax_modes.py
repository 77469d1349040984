"""S0: softmax regression by mode: accuracy, time, network."""
from .. import figures, graph, old_figures, units
from . import softmax


def run(context):
    """Rate 0.5, batch 200: single, synchronous, asynchronous."""
    epochs = context.choose(50, 6)
    runs = {mode: softmax.train(context, mode, mode, 200, epochs=epochs) for mode in ("single", "sync", "async")}
    found, rows = context.found, []
    for mode, run in runs.items():
        old = old_figures.SOFTMAX_S0[mode]
        network = softmax.listed(softmax.rate_of(run), "Mbit/s", 8e-6) if run.job.servers else "–"
        rows.append(
            [
                mode,
                f"{run.job.effective_batch:,}",
                f"{run.updates:,}",
                units.percent(run.final["accuracy"]),
                old["accuracy"],
                units.seconds(run.wall_s),
                old["seconds"],
                network,
                old["network"],
            ]
        )
    columns = [
        "mode",
        "effective batch",
        "updates",
        "test accuracy",
        "old (S0) accuracy",
        "time",
        "old time",
        "network, each worker",
        "old network",
    ]
    found.table(
        f"Rate 0.5, batch 200, {epochs} epochs",
        columns,
        rows,
        f"Split: accuracy is of the {softmax.SPLIT}. Old: 50 epochs, 3 workers.",
    )
    softmax.process_table(found, runs, {})
    figures.learning_curves(found, runs, softmax.SPLIT)
    figures.resources(found, {mode: runs[mode] for mode in ("sync", "async")})
    found.figures.append(graph.picture(context, "softmax"))
    softmax.mode_checks(context, runs)
    softmax.accuracy_checks(found, runs)
    for mode, run in runs.items():
        found.headlines.append(
            (
                units.percent(run.final["accuracy"]),
                f"{mode}, {softmax.SPLIT} (old: {old_figures.SOFTMAX_S0[mode]['accuracy']})",
            )
        )
