"""S3: softmax regression with the CPU, memory and network of every process."""
from .. import figures, old_figures, samples, units
from . import softmax


def run(context):
    """Batch 128, 20 epochs, with the resources of each process."""
    epochs = context.choose(20, 4)
    runs = {mode: softmax.train(context, mode, mode, 128, epochs=epochs) for mode in ("single", "sync", "async")}
    found, rows = context.found, []
    for mode, run in runs.items():
        old = old_figures.SOFTMAX_S3[mode]
        cpu = softmax.listed(softmax.rate_of(run, samples.CPU), "%", 100)
        memory = softmax.listed([run.samples[w].peak_memory() for w in run.worker_names], "MB", 1e-6)
        network = softmax.listed(softmax.rate_of(run), "MB/s", 1e-6) if run.job.servers else "–"
        rows.append(
            [
                mode,
                f"{run.job.effective_batch:,}",
                f"{run.updates:,}",
                units.percent(run.final["accuracy"]),
                old["accuracy"],
                cpu,
                old["cpu"],
                memory,
                old["memory"],
                network,
                old["network"],
            ]
        )
    columns = [
        "mode",
        "effective batch",
        "updates",
        "test accuracy",
        "old (S3) accuracy",
        "CPU, workers",
        "old CPU",
        "memory, workers",
        "old memory",
        "network, workers",
        "old network",
    ]
    found.table(
        f"Batch 128, {epochs} epochs",
        columns,
        rows,
        f"Split: accuracy is of the {softmax.SPLIT}. Old: 20 epochs. CPU: 100 % is one core.",
    )
    softmax.process_table(
        found,
        runs,
        {
            mode: f"CPU {old['cpu']}; {old['memory']}; network {old['network']}"
            for mode, old in old_figures.SOFTMAX_S3.items()
        },
    )
    figures.learning_curves(found, runs, softmax.SPLIT)
    softmax.mode_checks(context, runs)
    softmax.accuracy_checks(found, runs)
    found.headlines += [
        (
            units.percent(run.final["accuracy"]),
            f"{mode}, {softmax.SPLIT} (old: {old_figures.SOFTMAX_S3[mode]['accuracy']})",
        )
        for mode, run in runs.items()
    ]
