# SPDX-License-Identifier: Apache-2.0
"""The figures of the old reports (S0 to S4), on their hardware and with their mistakes. Units are as they were meant."""

NUM_FEATURES = 33_762_578

# S4: sparse logistic regression, 4 hosts.
LR = {
    "seconds": 100 * 60,
    "examples_per_s": 33,
    "round_s": 7.121,  # one synchronous round at batch 20, seen from the server
    "round_batch": 20,
    "said_model_mb": 257,
    "said_network_mb_per_s": 350,
    "network_mbit_per_s": 349,
}
# Milliseconds at batch 10, in the order of the computation.
LR_OPS_MS = [
    ("X·W", 2.02),
    ("mul", 0.03),
    ("sigmoid", 0.009),
    ("sub", 0.013),
    ("mul", 0.009),
    ("Xᵀ·e", 80.91),
    ("reduce_sum", 42.45),
]
# (sync, async)
LR_PEAKS = {
    "disk": ("240 KB/s", "235 KB/s"),
    "CPU": ("38 %", "96 %"),
    "memory": ("18 %", "46 %"),
    "network": ("349 “MBps”", "395 “MBps”"),
}
LR_DIAGNOSIS = {"sync": "network-bound (by hand, from top, iftop and iotop)", "async": "CPU-bound (by hand as well)"}

# S1: seconds that a synchronous job waited before it began.
START_IDLE_S = 30

# S0: rate 0.5, 50 epochs, batch 200.
SOFTMAX_S0 = {
    "single": {"accuracy": "92.63 %", "seconds": "121 s", "network": "–"},
    "sync": {"accuracy": "92.02 %", "seconds": "104 s", "network": "22–25 Mbit/s"},
    "async": {"accuracy": "91.78–92.27 %", "seconds": "48–51 s", "network": "none seen"},
}
# S1: 4 hosts, 100 epochs.
SOFTMAX_S1_SECONDS = {"single": 35, "sync": 50, "async": 18}
SOFTMAX_S1_BATCH_SECONDS = {13750: 18, 1375: 20, 275: 28}
# S2: 6,000 steps; (mode, workers).
SOFTMAX_S2 = {
    ("async", 2): {"seconds": "12.7 s", "network": "–"},
    ("async", 3): {"seconds": "10 s", "network": "–"},
    ("sync", 2): {"seconds": "312 s", "network": "136–155 MB/s"},
    ("sync", 3): {"seconds": "282 s", "network": "136–155 MB/s"},
}
# S3: batch 128, 20 epochs.
SOFTMAX_S3 = {
    "single": {"accuracy": "91.8 %", "cpu": "25 %", "memory": "870 MB", "network": "20 K"},
    "sync": {"accuracy": "91.74 %", "cpu": "33, 20, 20 %", "memory": "1060, 760, 680 MB", "network": "8M, 4M, 4M"},
    "async": {"accuracy": "91.57 %", "cpu": "–", "memory": "–", "network": "–"},
}

# S0: 6 epochs; by workers, at batch 64, 128, 256, 512. The report has no figures of two hosts.
LENET_BATCHES = (64, 128, 256, 512)
LENET_S0 = {1: (0.980, 0.976, 0.957, 0.927), 3: (0.968, 0.924, 0.911, 0.840)}
LENET_S0_SECONDS = "162–212 s"
# S3: Adam, batch 64, 20 epochs; by workers.
LENET_S3 = {1: ("99.08 %", 17), 2: ("99.13 %", 12), 3: ("98.9 %", 12)}
# S3: three hosts; by batch: accuracy, seconds an epoch, network.
LENET_S3_BATCH = {8: ("98.9 %", 45, "17–18 MB/s"), 64: ("98.9 %", 12, "8 MB/s"), 512: ("98.0 %", 14, "0.9–1 MB/s")}

# S2: examples/s by workers at batch 64, 128, 256; hosts of 20 cores. S1: seconds on four hosts.
ALEXNET_BATCHES = (64, 128, 256)
ALEXNET_S2 = {1: (27.6, 42.3, 43.5), 2: (56.6, 71.1, 74.0), 3: (83.5, 97.3, 102.5)}
ALEXNET_S1_SECONDS = {64: 75, 128: 122, 256: 212}

# "What the reports got wrong", by its numbers.
MISTAKES = {
    1: "units: 33,762,578 float32 are 135 MB, not 257 MB; predicted and measured bytes and times are both shown",
    2: "a dense gradient for at most 390 touched weights: nothing that is sparse is made dense",
    3: "“precision” was accuracy on an unbalanced set: each metric under its right name",
    4: "asynchronous training without traffic shares no model: its byte rate is at least the synchronous one",
    5: "a cluster that carried 25 Kbit/s exchanged no gradients",
    6: "accuracy falls with the effective batch: it is printed, with the number of updates",
    7: "a loss that does not fall is a failure",
    8: "98 % of softmax regression was measured on something else: every figure names its split",
    9: "gradients that are added instead of subtracted: checked against finite differences",
}
