# SPDX-License-Identifier: Apache-2.0
"""Properties of a correct system, checked on runs. Each check states the numbers by which it passed or failed."""
import dataclasses

from . import units

BYTES_TOLERANCE = 0.05
RATE_TOLERANCE = 0.05  # a byte rate that is this much lower is still taken for equal
RATE_TRIES = 3
OTHER_CORES = 0.3  # more busy cores than this make a comparison of times inconclusive


@dataclasses.dataclass
class Check:
    name: str
    passed: bool
    numbers: str
    mistake: int = 0  # number in old_figures.MISTAKES; 0: none of them
    conclusive: bool = True  # false if other work on the machine makes a time worthless

    @property
    def failed(self):
        return self.conclusive and not self.passed


def of_every_run(runs):
    """The checks that any training run must pass."""
    checks = []
    for run in runs:
        checks.append(loss_falls(run))
        if run.job.mode == "sync":
            checks.append(updates_follow_the_effective_batch(run))
        if run.job.servers:
            checks += [bytes_as_predicted(run), gradients_were_exchanged(run)]
    return [check for check in checks if check]


def loss_falls(run):
    losses = run.column("loss")
    if len(losses) < 2 or not run.job.check_loss:
        return None
    first, last = losses[0], losses[-1]
    text = f"training loss {first:.4f} → {last:.4f} in {run.updates:,} updates"
    return Check(f"{run.job.name}: the loss falls", last < first, text, 7)


def updates_follow_the_effective_batch(run):
    effective = run.job.workers * run.job.batch
    # The last step of an epoch may be short.
    per_epoch = run.splits[0] if run.splits else run.examples
    epochs, rest = divmod(run.examples, per_epoch)
    expected = epochs * -(-per_epoch // effective) + -(-rest // effective)
    text = (
        f"{run.job.workers} × {run.job.batch} = {effective:,}, the program states {run.stated_effective_batch:,}; "
        f"{run.examples:,} examples make {expected:,} updates, counted {run.updates:,}"
    )
    passed = run.stated_effective_batch == effective and abs(run.updates - expected) <= max(1, epochs)
    return Check(f"{run.job.name}: effective batch and updates", passed, text, 6)


def bytes_as_predicted(run):
    predicted, measured = run.wire()
    ratio = measured / predicted if predicted else 0
    text = f"predicted {units.bytes_text(predicted)}, measured {units.bytes_text(measured)}: {ratio:.3f} of it"
    return Check(f"{run.job.name}: bytes as predicted", abs(ratio - 1) <= BYTES_TOLERANCE, text, 1)


def gradients_were_exchanged(run):
    """Uses the kernel's count, not the program's. Bytes sent after the last sample are missing in it, so it may be lower
    than the sent bytes, but never 0."""
    predicted, _ = run.wire()
    seen = run.kernel_bytes()
    text = (
        f"the kernel counted {units.bytes_text(seen)} on the workers' sockets, of the predicted"
        f" {units.bytes_text(predicted)}"
    )
    return Check(f"{run.job.name}: gradients crossed the network", seen >= predicted / 10 > 0, text, 5)


def async_rate(context, sync, other, bytes_and_seconds, what):
    """Byte rates of training in both modes. Runs are short and the machine may be busy, so a pair that fails is run again,
    up to twice, and the best rate of each mode counts. If other processes still keep the machine busy, the check is
    inconclusive."""
    rate = lambda run: bytes_and_seconds(run)[0] / bytes_and_seconds(run)[1] / 1e6
    best = {"sync": rate(sync), "async": rate(other)}
    others = [sync.other_cores, other.other_cores]
    for again in range(1, RATE_TRIES):
        if best["async"] >= best["sync"]:
            break
        for run in (sync, other):
            job = dataclasses.replace(run.job, name=f"{run.job.name}-again-{again}", profile=False)
            repeated = context.run(job)
            best[job.mode] = max(best[job.mode], rate(repeated))
            others.append(repeated.other_cores)
    return rate_check(best, others, what)


def rate_check(best, others, what):
    """best: MB/s by mode; others: cores that other work kept busy in each run."""
    passed = best["async"] >= best["sync"] * (1 - RATE_TOLERANCE)
    conclusive = passed or max(others) < OTHER_CORES
    text = f"{what}: sync {units.number(best['sync'])} MB/s, async {units.number(best['async'])} MB/s"
    text += f" (the best of {len(others) // 2})" if len(others) > 2 else ""
    text += "" if conclusive else f"; inconclusive: other work kept up to {max(others):.1f} cores busy"
    return Check("the asynchronous byte rate is at least the synchronous one", passed, text, 4, conclusive)


def async_bytes(sync_bytes, sync_steps, async_bytes_, async_steps):
    sync, other = sync_bytes / sync_steps, async_bytes_ / async_steps
    text = f"per gradient and its reply: sync {units.bytes_text(sync)}, async {units.bytes_text(other)}"
    return Check("bytes per step are equal in both modes", abs(other / sync - 1) <= BYTES_TOLERANCE, text, 4)


def accuracy_between(run, low, high, split):
    accuracy = run.final["accuracy"]
    text = f"{units.percent(accuracy)} on {split}; expected {low * 100:.0f} to {high * 100:.0f} %"
    return Check(f"{run.job.name}: accuracy on the test images", low <= accuracy <= high, text, 8)


def test_split(run, expected):
    _, tested = run.splits
    return Check(
        f"{run.job.name}: tested on the test split",
        tested == expected,
        f"{tested:,} test images, expected {expected:,}",
        8,
    )
