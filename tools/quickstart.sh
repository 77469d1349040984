#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh machine to a first result: installs missing packages, builds the programs into build/bin, makes
# Criteo-like TFRecord data, checks it, trains the model of 33,762,578 features, and shows the results: the quality
# of the model, the bottleneck, and a report page.
#
#   tools/quickstart.sh [--rows=2000000] [--test_rows=200000] [--data=data/quickstart] [--run=runs/quickstart]
set -euo pipefail
cd "$(dirname "$0")/.."

rows=2000000
test_rows=200000
data=data/quickstart
run=runs/quickstart
for arg in "$@"; do
  case "$arg" in
    --rows=*) rows=${arg#*=} ;;
    --test_rows=*) test_rows=${arg#*=} ;;
    --data=*) data=${arg#*=} ;;
    --run=*) run=${arg#*=} ;;
    -h|--help) sed -n '3,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "quickstart: unknown option '$arg' (see --help)" >&2; exit 2 ;;
  esac
done

started=$SECONDS
step() { printf '\n== %s (%d s so far)\n' "$*" "$((SECONDS - started))"; }

step "set up"
tools/setup.sh
step "build"
cmake --preset release -DMILLRACE_TESTS=OFF >/dev/null
cmake --build --preset release -j "$(nproc)" -- --quiet
step "make $rows training and $test_rows test rows in $data"
build/bin/millrace-records synth --rows="$rows" --test_rows="$test_rows" --out="$data" --overwrite --threads="$(nproc)"
step "check every CRC"
build/bin/millrace-records verify "$data/*.tfrecord"
step "statistics of the data"
build/bin/millrace-records stat "$data/test-*.tfrecord"
step "the first two records"
build/bin/millrace-records cat --limit=2 "$data/train-00000*"
step "train on all rows, evaluate every 500,000; trace 2,000 steps of 100 rows after the start-up"
middle=$((rows / 200))
build/bin/millrace-lr --train="$data/train-*" --test="$data/test-*" --num_features=33762578 --eval_every=500000 \
  --run_dir="$run" --overwrite --profile_steps="$middle:$((middle + 2000))"
step "bottleneck of the run"
build/bin/millrace-report --ops=12 "$run"
step "done"
echo "programs: build/bin    data: $data    run: $run    page: $run/report.html"
sed -n 's/.*"bayes_logloss": \([0-9.]*\), "bayes_auc": \([0-9.]*\).*/best possible on the test part: logloss \1, AUC \2/p' \
  "$data/synth.json"
