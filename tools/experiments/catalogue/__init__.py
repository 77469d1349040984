# SPDX-License-Identifier: Apache-2.0
"""All experiments: name, purpose, duration, and the function that runs it."""
import dataclasses
import typing

from . import alexnet, deployment, gradient, lenet, lr_modes, lr_ops, softmax, softmax_steps


@dataclasses.dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    line: str
    quick_s: int  # about, on two cores
    full_s: int
    run: typing.Callable


EXPERIMENTS = [
    Experiment(
        "deployment",
        "Deployment: modes, hosts, start",
        "single, cluster, cluster2: placement, and a start without the 30 s of idling (S0, S1)",
        3,
        3,
        deployment.run,
    ),
    Experiment(
        "gradient",
        "The gradient, against finite differences",
        "one step of millrace-lr must move against the gradient of the loss",
        1,
        1,
        gradient.run,
    ),
    Experiment(
        "lr-modes",
        "Sparse logistic regression: synchronous and asynchronous",
        "S4's main job: curves, workers, peaks, bottleneck diagnosis, bytes",
        3,
        3,
        lr_modes.run,
    ),
    Experiment(
        "lr-ops", "Sparse logistic regression: per-op table", "S4's per-op table at batch 10 and 100", 1, 2, lr_ops.per_op
    ),
    Experiment(
        "lr-round",
        "Sparse logistic regression: one round",
        "S4's timelines: a worker's step, a synchronous round at batch 20 (7.121 s)",
        1,
        1,
        lr_ops.one_round,
    ),
    Experiment(
        "softmax-modes",
        "Softmax regression: single, synchronous, asynchronous",
        "S0: rate 0.5, batch 200: accuracy, time, network; the graph",
        4,
        15,
        softmax.modes,
    ),
    Experiment(
        "softmax-hosts",
        "Softmax regression: four hosts",
        "S1: 100 epochs by mode, and asynchronous batches 13750/1375/275",
        3,
        40,
        softmax.hosts,
    ),
    Experiment(
        "softmax-steps",
        "Softmax regression: 6,000 steps",
        "S2: two and three workers, and all resources against batch 8/64/512",
        5,
        20,
        softmax_steps.run,
    ),
    Experiment(
        "softmax-resources",
        "Softmax regression: resources",
        "S3: batch 128: CPU, memory and network of every process",
        3,
        8,
        softmax.resources,
    ),
    Experiment(
        "lenet-grid",
        "LeNet: batch by workers",
        "S0: batch 64/128/256/512 on 1/2/3 workers: accuracy against the effective batch",
        20,
        100,
        lenet.grid,
    ),
    Experiment(
        "lenet-adam",
        "LeNet: Adam",
        "S3: batch 64 on 1/2/3 workers: accuracy, time per epoch; timeline of the layers",
        12,
        100,
        lenet.adam,
    ),
    Experiment(
        "lenet-batches",
        "LeNet: batches 8, 64, 512",
        "S3: three workers: accuracy, time per epoch, network",
        13,
        230,
        lenet.batches,
    ),
    Experiment(
        "alexnet",
        "AlexNet: examples/s",
        "S2: batch 64/128/256 on 1/2/3 workers; waves of computing and traffic (S1); it learns",
        300,
        900,
        alexnet.run,
    ),
]
BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}
