#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build into an empty folder and uses only the installed files.
# Usage: install_test.sh BUILD_DIR
set -eu
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --prefix "$folder/usr" >"$folder/log"
cd "$folder"
fail() { echo "$*"; exit 1; }

for program in convnet launch lr predict ps records report; do
  name=millrace-$program
  [ "$(usr/bin/$name --version)" = "$("$build/bin/$name" --version)" ] || fail "$name: another version"
  zcat "usr/share/man/man1/$name.1.gz" | grep -q "^\.SH NAME" || fail "$name: no man page"
  grep -q "complete -F" "usr/share/bash-completion/completions/$name" || fail "$name: no completion"
  # Where groff is installed it must have nothing to complain of.
  if command -v groff >/dev/null; then
    complaints=$(zcat "usr/share/man/man1/$name.1.gz" | groff -man -Tutf8 -ww -z 2>&1)
    [ -z "$complaints" ] || fail "$name.1: $complaints"
  fi
done
[ -s usr/share/doc/millrace/README.md ] || fail "no README"
[ -s usr/share/doc/millrace/docs/formats.md ] || fail "no docs"

PATH=$folder/usr/bin:/usr/bin:/bin
millrace-records synth --rows=2000 --test_rows=200 --num_features=1000 --shards=1 --out=data >/dev/null 2>&1
millrace-lr --train='data/train-*' --num_features=1000 --run_dir=run >/dev/null
[ "$(millrace-predict --model=run/model/model.bin 'data/test-*' | wc -l)" = 200 ] || fail "expected 200 scores"
millrace-report run >/dev/null
[ -s run/report.html ] || fail "no report page"
millrace-launch --deploy_mode=cluster -- millrace-lr --mode=sync --train='data/train-*' --num_features=1000 >/dev/null
echo "install: all as expected"
