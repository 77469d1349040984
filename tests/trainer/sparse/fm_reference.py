#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Factorization machines in plain Python with float64, written apart from the C++ code: to compare with it on small data.

    m = b + sum_i w_i x_i + sum_{i<j} <v_i, v_j> x_i x_j                      fm:  v_i has k numbers
    m = b + sum_i w_i x_i + sum_{i<j} <v_i,field(j), v_j,field(i)> x_i x_j    ffm: v_i has k for each field

The sums run over the entries of a row. AdaGrad with the summed gradient of a batch:
n += g^2, w -= rate g / sqrt(n + offset). The L2 term is added to the summed gradient.

    fm_reference.py --model=ffm --factors=4 --epochs=3 --test=TEST TRAIN      libffm text (for fm also libsvm text)
    fm_reference.py --check                                                   the gradient, by finite differences

Prints the mean loss of each pass, before the update of each batch, and the logloss of the test rows. Rows are taken
in the order of the file. `initial_factors` makes initial factors of (seed, key) alone.
"""
import argparse
import math
import random
import sys

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
FACTOR_STREAM = 0x666163746F72


def mix64(x):
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def derive_seed(seed, stream, substream):
    first = mix64((seed + GOLDEN) & MASK) ^ ((stream * GOLDEN + 1) & MASK)
    return mix64(mix64(first) ^ ((substream * GOLDEN + 2) & MASK))


def initial_factors(seed, key, count, deviation):
    stream = derive_seed(seed, FACTOR_STREAM, key)
    numbers = []
    for i in range(count):
        bits = mix64((stream + (i // 2 * 2 + 1) * GOLDEN) & MASK) >> (32 * (i % 2))
        numbers.append(deviation * math.sqrt(3) * (((bits & 0xFFFFFF) | 1) - (1 << 23)) / (1 << 23))
    return numbers


def read_rows(path):
    """Rows of (label, [(field, key, value)]); libsvm entries have field 0."""
    rows = []
    with open(path, encoding="ascii") as lines:
        for line in lines:
            words = line.split("#")[0].split()
            if not words:
                continue
            entries = []
            for word in words[1:]:
                parts = word.split(":")
                entries.append((int(parts[0]) if len(parts) == 3 else 0, int(parts[-2]), float(parts[-1])))
            rows.append((float(words[0]) > 0, entries))
    return rows


class Model:
    def __init__(self, field_aware, factors, fields, init, seed):
        self.field_aware, self.k, self.init, self.seed = field_aware, factors, init, seed
        self.width = factors * (fields if field_aware else 1)
        self.bias, self.weights, self.factors = 0.0, {}, {}

    def see(self, entries):
        for _, key, _ in entries:
            if key not in self.factors:
                self.weights[key] = 0.0
                self.factors[key] = initial_factors(self.seed, key, self.width, self.init)

    def pairs(self, entries):
        """The pairs of entries whose features have factors, with the beginning of the factors that they use."""
        for i, (field_i, key_i, value_i) in enumerate(entries):
            for field_j, key_j, value_j in entries[i + 1:]:
                if key_i in self.factors and key_j in self.factors:
                    yield (key_i, field_j * self.k if self.field_aware else 0,
                           key_j, field_i * self.k if self.field_aware else 0, value_i * value_j)

    def margin(self, entries):
        total = self.bias + sum(self.weights.get(key, 0.0) * value for _, key, value in entries)
        for a, at_a, b, at_b, x in self.pairs(entries):
            va, vb = self.factors[a], self.factors[b]
            total += x * sum(va[at_a + f] * vb[at_b + f] for f in range(self.k))
        return total

    def gradient(self, batch):
        """(bias, {key: weight}, {key: factors}) of the summed loss."""
        bias, weights, factors = 0.0, {}, {}
        for label, entries in batch:
            residual = sigmoid(self.margin(entries)) - label
            bias += residual
            for _, key, value in entries:
                weights[key] = weights.get(key, 0.0) + residual * value
                factors.setdefault(key, [0.0] * self.width)
            for a, at_a, b, at_b, x in self.pairs(entries):
                for f in range(self.k):
                    factors[a][at_a + f] += residual * x * self.factors[b][at_b + f]
                    factors[b][at_b + f] += residual * x * self.factors[a][at_a + f]
        return bias, weights, factors


def sigmoid(m):
    return 1 / (1 + math.exp(-m)) if m >= 0 else math.exp(m) / (1 + math.exp(m))


def loss(m, label):
    m = m if label else -m
    return max(-m, 0.0) + math.log1p(math.exp(-abs(m)))


def mean_loss(model, rows):
    return sum(loss(model.margin(entries), label) for label, entries in rows) / len(rows)


class AdaGrad:
    def __init__(self, args):
        self.args, self.sums = args, {}

    def step(self, name, w, g, l2, offset):
        g += l2 * w
        self.sums[name] = self.sums.get(name, 0.0) + g * g
        return w - self.args.rate * g / math.sqrt(self.sums[name] + offset)

    def apply(self, model, gradient):
        args = self.args
        bias, weights, factors = gradient
        model.bias = self.step("bias", model.bias, bias, 0.0, args.offset)
        for key, g in weights.items():
            model.weights[key] = self.step(key, model.weights[key], g, args.l2, args.offset)
        for key, gs in factors.items():
            v = model.factors[key]
            for f, g in enumerate(gs):
                v[f] = self.step((key, f), v[f], g, args.factor_l2, args.factor_offset)


def train(args):
    rows = read_rows(args.train)
    tests = read_rows(args.test) if args.test else []
    fields = 1 + max(field for _, entries in rows + tests for field, _, _ in entries)
    model = Model(args.model == "ffm", args.factors, fields, args.init, args.seed)
    rule = AdaGrad(args)
    for epoch in range(args.epochs):
        total = 0.0
        for at in range(0, len(rows), args.batch_size):
            batch = rows[at:at + args.batch_size]
            for label, entries in batch:
                model.see(entries)
                total += loss(model.margin(entries), label)
            rule.apply(model, model.gradient(batch))
        test = f" test {mean_loss(model, tests):.9f}" if tests else ""
        print(f"epoch {epoch + 1} train {total / len(rows):.9f}{test}")
    if args.weights:
        with open(args.weights, "w", encoding="ascii") as out:
            out.write(f"bias {model.bias:.17g}\n")
            for key in sorted(model.weights):
                numbers = " ".join(f"{v:.17g}" for v in [model.weights[key], *model.factors[key]])
                out.write(f"{key} {numbers}\n")


def check():
    """Every parameter of small models: the gradient is the difference quotient of the summed loss."""
    draw = random.Random(1)
    for field_aware in (False, True):
        model = Model(field_aware, 3, 4, 0.5, 7)
        batch = []
        for _ in range(6):
            # Keys and fields may repeat in a row.
            entries = [(draw.randrange(4), draw.randrange(8), draw.choice((1.0, -0.5, 2.0)))
                       for _ in range(draw.randrange(6))]
            model.see(entries)
            batch.append((draw.random() < 0.5, entries))
        model.weights = {key: draw.uniform(-1, 1) for key in model.weights}
        bias, weights, factors = model.gradient(batch)

        def total():
            return sum(loss(model.margin(entries), label) for label, entries in batch)

        def compare(table, key, g, name):
            old, h = table[key], 1e-5
            table[key] = old + h
            up = total()
            table[key] = old - h
            down = total()
            table[key] = old
            if abs((up - down) / (2 * h) - g) > 1e-7:
                sys.exit(f"{name}: gradient {g}, difference quotient {(up - down) / (2 * h)}")

        compare(vars(model), "bias", bias, "bias")
        for key, g in weights.items():
            compare(model.weights, key, g, f"weight {key}")
            for f, gf in enumerate(factors[key]):
                compare(model.factors[key], f, gf, f"factor {f} of {key}, field_aware {field_aware}")


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("train", nargs="?")
    flags.add_argument("--test")
    flags.add_argument("--model", choices=("fm", "ffm"), default="fm")
    flags.add_argument("--factors", type=int, default=8)
    flags.add_argument("--epochs", type=int, default=1)
    flags.add_argument("--batch_size", type=int, default=100)
    flags.add_argument("--rate", type=float, default=0.1)
    flags.add_argument("--l2", type=float, default=0)
    flags.add_argument("--factor_l2", type=float, default=0)
    flags.add_argument("--offset", type=float, default=1e-6, help="initial + epsilon of the weights")
    flags.add_argument("--factor_offset", type=float, default=1 + 1e-6, help="initial + epsilon of the factors")
    flags.add_argument("--init", type=float, default=0.01, help="standard deviation of the initial factors")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--weights", help="file for the parameters: key, weight, factors")
    flags.add_argument("--check", action="store_true")
    args = flags.parse_args()
    if args.check:
        check()
    elif args.train:
        train(args)
    else:
        flags.error("expected a file of rows, or --check")


if __name__ == "__main__":
    main()
