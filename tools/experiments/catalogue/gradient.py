# SPDX-License-Identifier: Apache-2.0
"""The gradient of millrace-lr against finite differences of the loss, computed here."""
import math
import random

from .. import old_figures, units
from ..jobs import Job

ROWS, FEATURES, RATE = 64, 12, 0.5
STEP = 1e-4  # of the differences
TOLERANCE = 2e-5  # weights are float32


def run(context):
    """One step of plain SGD from a model that is not zero: the change of the weights is minus the rate times the gradient."""
    draw = random.Random(7)
    rows = []
    for _ in range(ROWS):
        values = {key: round(draw.uniform(-2, 2), 4) for key in range(FEATURES) if draw.random() < 0.6}
        rows.append((draw.choice((-1, 1)), values))
    start = [round(draw.uniform(-1, 1), 4) for _ in range(FEATURES)]
    context.folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{y} " + " ".join(f"{k}:{v}" for k, v in sorted(x.items())) + "\n" for y, x in rows)
    (context.folder / "rows.libsvm").write_text(text, encoding="ascii")
    write_model(context.folder / "start.txt", start)
    flags = {
        "train": context.folder / "rows.libsvm",
        "num_features": FEATURES,
        "optimizer": "sgd",
        "learning_rate": RATE,
        "normalize": "off",
        "intercept": "false",
        "model_in": context.folder / "start.txt",
        "model_format": "text",
        "epochs": 1,
    }
    job = Job("one-step", "millrace-lr", "single", ROWS, flags, profile=False)
    context.run(job)
    after = read_model(context.folder / "one-step" / "model" / "model.txt")
    moved = [(before - now) / RATE for before, now in zip(start, after)]
    differences = [residual(rows, start, key) for key in range(FEATURES)]
    compare(context.found, moved, differences, mean_loss(rows, start), mean_loss(rows, after))


def compare(found, moved, differences, loss_before, loss_after):
    table = [[key, f"{a:.6f}", f"{b:.6f}", f"{a - b:.1e}"] for key, (a, b) in enumerate(zip(moved, differences))]
    note = (
        f"{ROWS} random rows, one step of SGD at rate {RATE} from a random model (training split; there is no other)."
    )
    found.table(
        "Gradient of the mean loss", ["weight", "(before − after) / rate", "finite difference", "apart"], table, note
    )
    worst = max(abs(a - b) for a, b in zip(moved, differences))
    found.check(
        "the gradient is that of finite differences",
        worst < TOLERANCE,
        f"largest difference {worst:.1e}, allowed {TOLERANCE:.0e}",
        9,
    )
    found.check(
        "the gradient is subtracted",
        loss_after < loss_before,
        f"mean loss {loss_before:.6f} before the step, {loss_after:.6f} after it",
        9,
    )
    found.headlines += [
        (f"{worst:.0e}", "largest difference between gradient and finite differences"),
        (units.number(loss_before - loss_after), "by which one step lowers the loss"),
    ]
    found.notes.append("The nets' gradients are checked in the same way by the unit tests in tests/convnets.")
    found.numbers["worst_difference"] = worst
    found.notes.append(f"Mistake 9 of the old reports: {old_figures.MISTAKES[9]}.")


def mean_loss(rows, weights):
    total = 0.0
    for label, values in rows:
        margin = label * sum(weights[key] * value for key, value in values.items())
        total += max(-margin, 0) + math.log1p(math.exp(-abs(margin)))
    return total / len(rows)


def residual(rows, weights, key):
    moved = lambda by: [w + (by if i == key else 0) for i, w in enumerate(weights)]
    return (mean_loss(rows, moved(STEP)) - mean_loss(rows, moved(-STEP))) / (2 * STEP)


def write_model(path, weights):
    lines = ["# millrace model 1", f"# num_features {len(weights)}", "# rule sgd", "# steps 0", "# examples 0"]
    lines += [f"{key}\t{weight}" for key, weight in enumerate(weights)]
    path.write_text("\n".join([*lines, f"# weights {len(weights)}"]) + "\n", encoding="ascii")


def read_model(path):
    weights = [0.0] * FEATURES
    for line in path.read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            key, weight = line.split("\t")
            weights[int(key)] = float(weight)
    return weights
