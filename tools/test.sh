#!/usr/bin/env bash
# Sets up, builds and runs all tests: the release build with every test (programs in build/bin), then the unit tests
# under AddressSanitizer + UBSan and under ThreadSanitizer. With arguments, only the builds named: release asan tsan.
set -euo pipefail
cd "$(dirname "$0")/.."
builds=("$@")
[ ${#builds[@]} -gt 0 ] || builds=(release asan tsan)

say() { printf '\n== %s\n' "$*"; }
tools/setup.sh --with-cluster --with-browser
jobs=$(nproc)
for build in "${builds[@]}"; do
  case "$build" in
    release) only=() ;;
    asan|tsan) only=(-L unit) ;;
    *) echo "test.sh: unknown build '$build': expected release, asan or tsan" >&2; exit 2 ;;
  esac
  say "$build: build"
  cmake --preset "$build" >/dev/null
  cmake --build --preset "$build" -j "$jobs" -- --quiet
  say "$build: test"
  ctest --preset "$build" -j "$jobs" "${only[@]}"
done
