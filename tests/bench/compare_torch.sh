#!/usr/bin/env bash
# Training speed beside PyTorch's on the same machine, images in memory on both sides: net, batch, images/s of the best
# of PyTorch's settings, ours, and the ratio. Needs the packages python3-torch and libopenblas0-openmp; exit status 77
# where there is no PyTorch. One argument or more: only these nets (softmax lenet alexnet).
set -euo pipefail
cd "$(dirname "$0")/../.."
nets=("$@")
[ ${#nets[@]} -gt 0 ] || nets=(softmax lenet alexnet)
/usr/bin/python3 -c 'import torch' 2>/dev/null || { echo "PyTorch is not installed: nothing to compare with"; exit 77; }

ours() { # net batch
  build/bench/convnet_bench --benchmark_filter="Step/$1/$2/2/" --benchmark_format=csv 2>/dev/null |
    awk -F, '/^"Step/ { printf "%.1f", $7 }'
}
printf '%-8s %6s %14s %14s %6s\n' net batch 'PyTorch' 'Millrace' ratio
for net in "${nets[@]}"; do
  case "$net" in
    softmax) batches=(128) ;;
    lenet) batches=(64 512) ;;
    alexnet) batches=(64 128) ;;
    *) echo "compare_torch: unknown net '$net'" >&2; exit 2 ;;
  esac
  for batch in "${batches[@]}"; do
    peer=$(tests/bench/torch_peer.py --net="$net" --batch="$batch" --seconds=3 2>/dev/null | awk '/^best/ { print $2 }')
    own=$(ours "$net" "$batch")
    printf '%-8s %6d %14s %14s %6.2f\n' "$net" "$batch" "$peer" "$own" "$(awk "BEGIN { print $own / $peer }")"
  done
done
