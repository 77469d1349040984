#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Training speed of PyTorch on the same nets, each in several settings; the best one is the peer's figure.

    torch_peer.py --net=lenet --batch=64 [--seconds=4] [--threads=2] [--setting=11]

A setting is two digits: whether memory is channels-last, and whether oneDNN is used. Prints one line a setting, the
peak memory of the process (of that setting, if only one was asked for) and, last, "best IMAGES_PER_S SETTING". Batches
are taken from memory in a fixed order, so that only forward, backward and update are timed. Exit status 77 where
PyTorch is not installed.

Debian's default OpenBLAS has threads of its own beside OpenMP's, which costs a factor of 2 to 5: where the package
libopenblas0-openmp is installed, the script starts itself again with that library.
"""
import argparse
import os
import sys
import time

SETTINGS = ["00", "01", "10", "11"]
OPENBLAS = "/usr/lib/x86_64-linux-gnu/openblas-openmp"


def restart_with_openmp_blas():
    if os.path.isdir(OPENBLAS) and OPENBLAS not in os.environ.get("LD_LIBRARY_PATH", ""):
        environment = dict(os.environ, LD_LIBRARY_PATH=OPENBLAS)
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def make_net(torch, name):
    nn = torch.nn
    if name == "softmax":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), (1, 28, 28), 10
    if name == "lenet":
        return (
            nn.Sequential(
                nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
            ),
            (1, 28, 28),
            10,
        )
    return (
        nn.Sequential(
            nn.Conv2d(3, 96, 11, stride=4), nn.ReLU(), nn.LocalResponseNorm(5, 1e-4, 0.75, 2.0), nn.MaxPool2d(3, 2),
            nn.Conv2d(96, 256, 5, padding=2, groups=2), nn.ReLU(), nn.LocalResponseNorm(5, 1e-4, 0.75, 2.0),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(256, 384, 3, padding=1), nn.ReLU(),
            nn.Conv2d(384, 384, 3, padding=1, groups=2), nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1, groups=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Flatten(), nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(),
            nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000),
        ),
        (3, 227, 227),
        1000,
    )


def make_optimizer(torch, name, net):
    if name == "lenet":
        return torch.optim.Adam(net.parameters(), lr=1e-3, foreach=True)
    if name == "softmax":
        return torch.optim.SGD(net.parameters(), lr=0.01, foreach=True)
    return torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, foreach=True)


def measure(torch, args, channels_last, mkldnn):
    torch.manual_seed(1)
    torch.backends.mkldnn.enabled = mkldnn  # read by the operators through the global context
    torch._C._set_mkldnn_enabled(mkldnn)
    net, shape, classes = make_net(torch, args.net)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    net = net.to(memory_format=layout)
    optimizer = make_optimizer(torch, args.net, net)
    loss_of = torch.nn.CrossEntropyLoss()
    count = 2 if args.net == "alexnet" else 32
    images = [torch.rand(args.batch, *shape).contiguous(memory_format=layout) for _ in range(count)]
    labels = [torch.randint(0, classes, (args.batch,)) for _ in range(count)]

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(net(images[i % count]), labels[i % count])
        loss.backward()
        optimizer.step()

    warm = 1 if args.net == "alexnet" else 20
    for i in range(warm):
        step(i)
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < args.seconds or steps == 0:
        step(steps)
        steps += 1
    return steps * args.batch / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--net", choices=["softmax", "lenet", "alexnet"], required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--setting", choices=SETTINGS)
    args = parser.parse_args()
    restart_with_openmp_blas()
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed (Debian package python3-torch): nothing to compare with")
        return 77
    torch.set_num_threads(args.threads)
    best = (0.0, "")
    for setting in [args.setting] if args.setting else SETTINGS:
        channels_last, mkldnn = (digit == "1" for digit in setting)
        rate = measure(torch, args, channels_last, mkldnn)
        best = max(best, (rate, setting))
        print(f"torch {torch.__version__} {args.net} batch {args.batch}: channels_last {channels_last}, "
              f"mkldnn {mkldnn}: {rate:.1f} images/s", flush=True)
    import resource
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    print(f"best {best[0]:.1f} {best[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
