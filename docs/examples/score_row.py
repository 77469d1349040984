#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores JSON lines with a text model of millrace-lr that has a feature spec: score_row.py model.txt < rows.jsonl"""
import bisect, itertools, json, math, sys

MASK, GOLDEN, MISSING, UNSEEN = 2**64 - 1, 0x9E3779B97F4A7C15, "", "\0"


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def hash_bytes(data, seed=0):
    h = mix(seed + GOLDEN * (len(data) + 1) & MASK)
    for i in range(0, len(data), 8):
        h = mix((h ^ int.from_bytes(data[i:i + 8], "little")) + GOLDEN & MASK)
    return h


def token(field, text):
    return hash_bytes(text.encode(), hash_bytes(field["name"].encode()))


def log2_bucket(number, parts):
    bits, m = parts.bit_length() - 1, min(int(abs(number)), 2**63)
    e = m.bit_length() - 1
    bucket = m if m < parts else parts * (e - bits + 1) + (m >> e - bits & parts - 1)
    return bucket + parts * (65 - bits) - 1 if number < 0 and bucket else bucket


def values_of(field, row):
    """(token, number within the field, value) of each value, None as the number of an unseen one."""
    found = row.get(field.get("column", field["name"]))
    found = found if isinstance(found, list) else [found]
    texts = [{True: "true", False: "false"}[v] if isinstance(v, bool) else str(v) for v in found if v not in (None, "")]
    if "separator" in field:
        texts = [part for text in texts for part in text.split(field["separator"]) if part]
    texts = texts or ([field["default"]] if "default" in field else [])
    rule = field["rule"]
    if not texts and field.get("missing") == "key":
        number = {"bucket": bucket_count(field), "number": 1}.get(rule, field.get("values", {}).get(MISSING))
        unseen = rule == "vocabulary" and number is None
        return [(token(field, UNSEEN if unseen else MISSING), field["unseen"] if unseen else number, 1)]
    return [value_of(field, rule, text) for text in texts]


def bucket_count(field):
    parts = field.get("log2")
    return 2 * parts * (65 - parts.bit_length() + 1) - 1 if parts else len(field.get("boundaries", [])) + 1


def value_of(field, rule, text):
    if rule == "number":
        return token(field, "number"), 0, (float(text) - field.get("center", 0)) * field.get("factor", 1)
    if rule == "bucket":
        bucket = log2_bucket(float(text), field["log2"]) if "log2" in field else bisect.bisect_right(
            field["boundaries"], float(text))
        return token(field, str(bucket)), bucket, 1
    if rule == "vocabulary" and text not in field["values"]:
        return token(field, UNSEEN), field["unseen"], 1
    return token(field, text), field.get("values", {}).get(text), 1


def groups_of(fields):
    """The different l1, l2 and rate of fields, in the order of their first fields; those without come first."""
    return sorted(dict.fromkeys(map(update_of, fields)), key=lambda update: update != (None, None, 1))


def update_of(field):
    return field.get("l1"), field.get("l2"), field.get("rate", 1)


def keys_of(spec, row):
    """(key, value) of a row."""
    fields, bits = spec["fields"], spec["hash_bits"]
    values = {field["name"]: values_of(field, row) for field in fields if field["rule"] != "cross"}
    hashed = groups_of([field for field in fields if field["rule"] in ("hash", "cross")])
    first = len(hashed) * 2**bits

    def hash_key(field, h):
        if bits < 64:
            return h % 2**bits + hashed.index(update_of(field)) * 2**bits
        own = groups_of(fields + [{}])  # the group of fields without l1, l2 and rate is number 0
        return min(h if len(own) == 1 else h % 2**56 | own.index(update_of(field)) << 56, MASK - 1)

    own = [(f, (bucket_count(f) if f["rule"] == "bucket" else 1) + (f.get("missing") == "key")) for f in fields
           if f["rule"] in ("bucket", "number") and f.get("keys", True)]
    ranks = first + sum(count for _, count in own)
    for field in fields:
        if field["rule"] == "cross":
            seed = hash_bytes(field["name"].encode())
            for parts in itertools.product(*(values[name] for name in field["of"])):
                data = b"".join(t.to_bytes(8, "little") for t, _, _ in parts)
                yield hash_key(field, hash_bytes(data, seed)), math.prod(v for _, _, v in parts)
        elif field.get("keys", True):
            base = ranks if field["rule"] == "vocabulary" else first + sum(
                count for f, count in itertools.takewhile(lambda entry: entry[0] is not field, own))
            for t, number, value in values[field["name"]]:
                yield (hash_key(field, t) if bits == 64 or field["rule"] == "hash" else base + number), value


def main():
    weights, spec = {}, None
    for line in open(sys.argv[1], encoding="utf-8"):
        if line.startswith("# input.features "):
            spec = json.loads(line.removeprefix("# input.features "))
        elif not line.startswith("#"):
            key, weight = line.split("\t")
            weights[key] = float(weight)
    for line in sys.stdin:
        margin = weights.get("intercept", 0) + sum(
            weights.get(str(key), 0) * value for key, value in keys_of(spec, json.loads(line)))
        print(f"{1 / (1 + math.exp(-margin)):.9f}")


main()
