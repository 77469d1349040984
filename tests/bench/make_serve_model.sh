#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the serving model that serve_candidates.lua and serve_load ask for: fields f0 to f38, and crosses of f0 and f1
# (of the context) with f10 and f11 (of a candidate). Usage: make_serve_model.sh BIN_DIR FOLDER
set -eu
bin=$1 folder=$2
mkdir -p "$folder"
python3 - "$folder" <<'PYTHON'
import json
import random
import sys
folder = sys.argv[1]
names = [f"f{i}" for i in range(39)]
crosses = [{"name": f"{a} x {b}", "rule": "cross", "of": [a, b]} for a, b in (("f0", "f10"), ("f1", "f11"))]
spec = {"label": {"column": "y"}, "hash_bits": 22, "fields": [{"name": name} for name in names] + crosses}
json.dump(spec, open(f"{folder}/spec.json", "w"))
draw = random.Random(1)
with open(f"{folder}/rows.csv", "w") as out:
    out.write(",".join(["y"] + names) + "\n")
    for _ in range(20000):
        values = ["%s%d" % ("" if 10 <= i < 14 else "v", int(100000 * draw.random() ** 3)) for i in range(39)]
        out.write(f"{draw.randrange(2)},{','.join(values)}\n")
PYTHON
"$bin/millrace-lr" --train="$folder/rows.csv" --features="$folder/spec.json" --run_dir="$folder/run" >/dev/null
"$bin/millrace-predict" export --model="$folder/run" --layout=dense --out="$folder/model.serving"
