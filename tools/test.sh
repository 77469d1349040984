#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds and runs all tests. With arguments, only the parts named:
#
#   release    every test, programs in build/bin
#   asan       the unit tests under AddressSanitizer + UBSan
#   tsan       the unit tests of code with threads under ThreadSanitizer
#   library    clang++ without the parameter server and the nets, installed, and the examples built with it
#   tidy       clang-tidy and clang's warnings over all sources
set -euo pipefail
cd "$(dirname "$0")/.."
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(release asan tsan library tidy)
jobs=$(nproc)
if command -v ccache >/dev/null; then export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi

say() { printf '\n== %s\n' "$*"; }
build() {
  say "$1: build"
  cmake --preset "$1" >/dev/null
  cmake --build --preset "$1" -j "$jobs" -- --quiet "${@:2}"
}
run_tests() {
  say "$1: test"
  ctest --preset "$1" -j "$jobs" "${@:2}"
}
tidy() {
  build clang millrace_ps_rpc millrace_serve_rpc millrace_example_proto  # their generated headers
  say "tidy: all sources"
  local log=build-clang/tidy.log
  run-clang-tidy -quiet -j "$jobs" -p build-clang \
    "$PWD/(io|sparse|ps|trainer|convnets|profiler|tools|tests)/" >"$log" 2>/dev/null ||
    { sed 's|\x1b\[[0-9;]*m||g' "$log" | grep -A 4 -E '(warning|error): '; echo "tidy: see $log" >&2; exit 1; }
  echo "$(grep -c '^clang-tidy' "$log") files, nothing found"
}

tools/setup.sh --with-cluster --with-browser --with-clang --with-python
tools/get_duckdb.sh || say "without DuckDB's library the tests of Parquet and SQL are skipped"
for part in "${parts[@]}"; do
  case "$part" in
    release) build release; run_tests release ;;
    asan|tsan) build "$part"; run_tests "$part" -L unit ;;
    library) build library; tests/install/library_test.sh "$PWD/build-library" "$PWD" clang++ ;;
    tidy) tidy ;;
    *) echo "test.sh: unknown part '$part': expected release, asan, tsan, library or tidy" >&2; exit 2 ;;
  esac
done
