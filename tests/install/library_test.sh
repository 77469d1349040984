#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build into an empty folder and builds docs/examples against it, as a user of the library does.
# Usage: library_test.sh BUILD_DIR SOURCE_DIR COMPILER...
set -eu
build=$1 examples=$2/docs/examples
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --prefix "$folder/usr" >"$folder/log"
cd "$folder"
fail() { echo "$*"; exit 1; }
quietly() { "$@" >log 2>&1 || { cat log; fail "$*"; }; }

export PATH=$folder/usr/bin:/usr/bin:/bin
PKG_CONFIG_PATH=$(dirname "$(find "$folder/usr" -name millrace.pc)")
export PKG_CONFIG_PATH
version=$(millrace-records --version)
[ "$(pkg-config --modversion millrace)" = "${version##* }" ] || fail "pkg-config: another version than $version"

# Every public header can be included, without anything of the source tree or of the other libraries.
(cd usr/include/millrace && find . -name '*.h' | sort | sed 's|^./\(.*\)|#include "\1"|') >all_headers.cc
quietly "$1" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -Iusr/include/millrace all_headers.cc

millrace-records synth --rows=10000 --test_rows=1000 --num_features=100000 --shards=2 --out=data >/dev/null 2>&1
# Without the training programs the models of the compilers are compared with each other.
if command -v millrace-lr >/dev/null; then
  millrace-lr --train='data/train-*' --weight_feature= --num_features=100000 --l1=1 --learning_rate=0.1 --batch_size=100 \
    --model_out=expected.bin >/dev/null
fi
# A model for the examples of the scoring library: with training programs only.
if command -v millrace-lr >/dev/null; then
  for i in $(seq 200); do echo "$((i % 3 == 0)),u$((i % 7)),$((i % 5))"; done | sed '1i clicked,user,ad' >rows.csv
  sed 1d rows.csv | sed 's/.*,\(.*\),\(.*\)/{"user": "\1", "ad": \2}/' >rows.jsonl
  echo '{"label": {"column": "clicked"}, "fields": [{"name": "user"}, {"name": "ad"},
    {"name": "user x ad", "rule": "cross", "of": ["user", "ad"]}]}' >spec.json
  millrace-lr --train=rows.csv --features=spec.json --run_dir=rows >/dev/null
  millrace-predict --model=rows rows.csv >expected_scores
  millrace-predict export --model=rows --out=rows.serving >/dev/null
fi

for compiler in "$@"; do
  for example in read_tfrecords train_model score_rows; do
    quietly cmake -S "$examples/$example" -B "build$compiler/$example" -DCMAKE_PREFIX_PATH="$folder/usr" \
      -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror"
    quietly cmake --build "build$compiler/$example"
  done
  "build$compiler/read_tfrecords/read_tfrecords" 'data/train-*' | tail -n 1 >read
  [[ $(cat read) == "20000 rows in 200 batches, 39.0 features per row, "*" % clicks" ]] || fail "$compiler: $(cat read)"
  "build$compiler/train_model/train_model" 'data/train-*' 'data/test-*' 100000 model.bin >trained
  grep -qx 'trained on 10000 examples in 100 steps' trained || fail "$compiler: $(cat trained)"
  [ -e expected.bin ] || mv model.bin expected.bin
  if [ -e rows.serving ]; then
    for program in score_rows score_rows_static; do
      "build$compiler/score_rows/$program" rows.serving <rows.jsonl | cmp - expected_scores || fail "$compiler: $program"
    done
    scored=$("build$compiler/score_rows/score_candidates" rows.serving user=u1 -- ad=1 ad=2 ad=3 | wc -l)
    [ "$scored" = 3 ] || fail "$compiler: score_candidates has $scored lines"
  fi
  [ ! -e model.bin ] || cmp model.bin expected.bin || fail "$compiler: another model than millrace-lr or the first compiler"
done

read -ra options <<<"$(pkg-config --cflags --libs millrace)"
quietly "$1" -std=c++20 "$examples/train_model/train_model.cc" -o with_pkg_config "${options[@]}"
./with_pkg_config 'data/train-*' 'data/test-*' 100000 again.bin >/dev/null
cmp again.bin expected.bin

# The C library: by pkg-config, with no other library of Millrace and nothing but its functions.
read -ra options <<<"$(pkg-config --cflags --libs millrace-score)"
quietly cc -std=c11 "$examples/score_rows/score_rows.c" -o c_with_pkg_config "${options[@]}"
library=$(find "$folder/usr" -name 'libmillrace-score.so.?')
if [ -e rows.serving ]; then
  LD_LIBRARY_PATH=$(dirname "$library") ./c_with_pkg_config rows.serving <rows.jsonl | cmp - expected_scores
fi
others=$(nm -D --defined-only "$library" | grep -v ' millrace_score_' || true)
[ -z "$others" ] || fail "libmillrace-score exports more than its functions: $others"
needed=$(objdump -p "$library" | awk '/NEEDED/ {print $2}' | grep -Ev '^(libsimdjson|libstdc\+\+|libm|libgcc_s|libc|ld-linux.*)\.' || true)
[ -z "$needed" ] || fail "libmillrace-score needs other libraries: $needed"

# A component that was not built is an error that names those that were.
mkdir unknown && cd unknown
echo 'cmake_minimum_required(VERSION 3.25)
project(unknown LANGUAGES CXX)
find_package(millrace REQUIRED COMPONENTS nets)' >CMakeLists.txt
cmake -B build -DCMAKE_PREFIX_PATH="$folder/usr" >log 2>&1 && fail "expected no component nets"
tr -s ' \n' ' ' <log | grep -q 'component nets: expected one of profiler' || { cat log; fail "expected the names of the components"; }
echo "install: the examples work with $*"
