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

for program in convnet launch lr predict ps records report serve; do
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
unit=usr/lib/systemd/system/millrace-serve.service
grep -q '^ExecStart=/usr/bin/millrace-serve ' "$unit" || fail "no unit of millrace-serve"
if command -v systemd-analyze >/dev/null; then
  # The program and its page are not where they will be: only that may be wrong.
  complaints=$(systemd-analyze verify "$unit" 2>&1 | grep -Ev 'Command (/usr/bin/millrace-serve is not executable|.man )' || true)
  [ -z "$complaints" ] || fail "$unit: $complaints"
fi
[ -s usr/share/doc/millrace/README.md ] || fail "no README"
[ -s usr/share/doc/millrace/docs/formats.md ] || fail "no docs"

PATH=$folder/usr/bin:/usr/bin:/bin
millrace-records synth --rows=2000 --test_rows=200 --num_features=1000 --shards=1 --out=data >/dev/null 2>&1
millrace-lr --train='data/train-*' --num_features=1000 --run_dir=run >/dev/null
[ "$(millrace-predict --model=run/model/model.bin 'data/test-*' | wc -l)" = 200 ] || fail "expected 200 scores"
millrace-report run >/dev/null
[ -s run/report.html ] || fail "no report page"
millrace-launch --deploy_mode=cluster -- millrace-lr --mode=sync --train='data/train-*' --num_features=1000 >/dev/null

millrace-serve --model=run --port=0 >serve.log &
server=$!
for _ in $(seq 100); do [ -s serve.log ] && break; sleep 0.1; done
port=$(sed 's/.*://' serve.log)
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
grep -q '{"status":"ok"}' <&3 || fail "millrace-serve is not ready"
kill "$server" && wait "$server" || fail "millrace-serve: exit status $?"
echo "install: all as expected"
