#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training speed and peak memory next to PyTorch's on the same machine, images in memory on both sides.
#
#   tests/bench/compare_torch.sh [--rounds=3] [--setting=11] [NET[:BATCH]...]
#
# For each net (softmax lenet alexnet) and batch the best of PyTorch's settings is looked for, unless --setting gives it
# (tests/bench/torch_peer.py); then both take turns, and the medians of the rounds are shown: images/s and MB of each,
# the ratio of the speeds. Needs the packages python3-torch and libopenblas0-openmp; exit status 77 where there is no
# PyTorch.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=3 setting= nets=()
for arg in "$@"; do
  case "$arg" in
    --rounds=*) rounds=${arg#*=} ;;
    --setting=*) setting=${arg#*=} ;;
    softmax) nets+=(softmax:128) ;;
    lenet) nets+=(lenet:64 lenet:512) ;;
    alexnet) nets+=(alexnet:64 alexnet:128) ;;
    softmax:*|lenet:*|alexnet:*) nets+=("$arg") ;;
    *) echo "compare_torch: unknown argument '$arg' (see the head of the script)" >&2; exit 2 ;;
  esac
done
[ ${#nets[@]} -gt 0 ] || nets=(softmax:128 lenet:64 lenet:512 alexnet:64 alexnet:128)
/usr/bin/python3 -c 'import torch' 2>/dev/null || { echo "PyTorch is not installed: nothing to compare with"; exit 77; }

peer() { tests/bench/torch_peer.py --net="$1" --batch="$2" --seconds=3 "${@:3}" 2>/dev/null; }
peer_once() { peer "$@" | awk '/^peak/ { mb = $3 } /^best/ { print $2, mb }'; }
own_once() { # net batch: images/s and MB
  build/bench/convnet_bench --benchmark_filter="Step/$1/$2/2/" --benchmark_format=console 2>/dev/null |
    awk '/^Step/ { for (i = 1; i <= NF; ++i) {
           if (sub(/^items_per_second=/, "", $i)) { k = $i ~ /M/ ? 1e6 : $i ~ /k/ ? 1e3 : 1; sub(/[kM]?\/s$/, "", $i); rate = $i * k }
           if (sub(/^peak_MB=/, "", $i)) { k = $i ~ /k/ ? 1e3 : 1; sub(/k$/, "", $i); mb = $i * k } }
         printf "%.1f %.0f\n", rate, mb }'
}
median() { sort -n | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }
column() { awk -v c="$1" '{ print $c }' <<<"$2" | median; }

printf '%-8s %6s %8s %12s %12s %6s %12s %12s\n' net batch setting 'PyTorch /s' 'Millrace /s' ratio 'PyTorch MB' 'Millrace MB'
for pair in "${nets[@]}"; do
  net=${pair%:*} batch=${pair#*:}
  best=${setting:-$(peer "$net" "$batch" | awk '/^best/ { print $3 }')}
  theirs= ours=
  for ((round = 0; round < rounds; ++round)); do
    theirs+="$(peer_once "$net" "$batch" --setting="$best")"$'\n'
    ours+="$(own_once "$net" "$batch")"$'\n'
  done
  theirs=${theirs%$'\n'} ours=${ours%$'\n'}
  a=$(column 1 "$theirs") b=$(column 1 "$ours")
  printf '%-8s %6d %8s %12s %12s %6.2f %12s %12s\n' "$net" "$batch" "$best" "$a" "$b" \
    "$(awk "BEGIN { print $b / $a }")" "$(column 2 "$theirs")" "$(column 2 "$ours")"
done
