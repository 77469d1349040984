"""What the experiments with softmax regression on MNIST share."""
from .. import checks, samples, units
from ..data import MNIST_TEST_IMAGES
from ..jobs import Job

SPLIT = "10,000 test images"
RATE = 0.5
PROFILE_STEPS = "20:520"  # of tens of thousands
LOW, HIGH = 0.90, 0.94  # where softmax regression on MNIST ends


def train(context, name, mode, batch, workers=3, profile=True, **course):
    servers = 0 if mode == "single" else 1
    workers = workers if servers else 1
    flags = {
        **context.data.mnist(),
        "net": "softmax",
        "learning_rate": RATE,
        "schedule": "constant",
        "threads": context.threads(workers),
        **course,
    }
    shape = {"workers": workers, "servers": servers}
    job = Job(name, "millrace-convnet", mode, batch, flags, profile=profile, profile_steps=PROFILE_STEPS, **shape)
    return context.run(job)


def rate_of(run, columns=samples.NETWORK):
    """Mean of each worker, bytes a second."""
    return [run.samples[name].mean_rate(columns) for name in run.worker_names if name in run.samples]


def listed(values, unit, scale=1):
    return ", ".join(units.number(value * scale) for value in values) + f" {unit}"


def process_table(found, runs, old):
    """CPU, memory and network of every process; old: the report's figures by run, where it has any."""
    rows = []
    for name, run in runs.items():
        for process, own in run.samples.items():
            rates = [own.mean_rate(columns) / 1e6 for columns in (samples.RECEIVED, samples.SENT)]
            cells = [name, process, units.percent(own.mean_rate(samples.CPU), 0), units.number(own.peak_memory() / 1e6)]
            cells += [units.number(rate) for rate in rates] + [units.number(own.mean_rate(samples.PACKETS))]
            rows.append(cells + ([old[name] if process == "worker-0" else ""] if old else []))
    columns = ["run", "process", "CPU (100 % = a core)", "peak memory MB", "received MB/s", "sent MB/s", "packets/s"]
    note = "Means over the run; network is the processes' own connections."
    found.table("Processes", columns + (["old (S3), all workers"] if old else []), rows, note)


def mode_checks(context, runs):
    """Bytes of both modes, by the servers' count, over the time of training."""
    found, sync, other = context.found, runs["sync"], runs["async"]
    gradients = lambda run: run.updates * (run.job.workers if run.job.mode == "sync" else 1)
    found.checks.append(
        checks.async_rate(
            context, sync, other, lambda run: (run.wire()[1], run.training_s), "all workers, while training"
        )
    )
    found.checks.append(checks.async_bytes(sync.wire()[1], gradients(sync), other.wire()[1], gradients(other)))


def accuracy_checks(found, runs):
    for run in runs.values():
        found.checks.append(checks.test_split(run, MNIST_TEST_IMAGES))
        found.checks.append(checks.accuracy_between(run, LOW, HIGH, SPLIT))
