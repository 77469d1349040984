#!/usr/bin/env bash
# Runs the experiments of the old reports and puts our figures beside theirs: see --help and docs/experiments.md.
# Installs and builds first what is missing, unless --bin=DIR names programs that are there.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)

needs_programs=0
for arg in "$@"; do
  case "$arg" in
    run) needs_programs=1 ;;
    --bin=*|-h|--help) needs_programs=0; break ;;
  esac
done
if [ "$needs_programs" = 1 ]; then
  echo "== set up and build (quick when nothing changed)"
  "$here/tools/setup.sh"
  (cd "$here" && cmake --preset release >/dev/null && cmake --build --preset release -j "$(nproc)" --target \
    millrace-{records,lr,predict,ps,launch,report,convnet} -- --quiet)
fi
PYTHONPATH="$here/tools" exec python3 -B -m experiments "$@"
