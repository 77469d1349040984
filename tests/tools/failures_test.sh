#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Errors in the environment of a program give one line on standard error and the right exit status.
# Usage: failures_test.sh BIN_DIR
set -u
PATH=$1:$PATH
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0

# expect STATUS MESSAGE COMMAND: standard error ends with MESSAGE.
expect() {
  local status=$1 message=$2 found
  timeout -k 5 120 bash -c "$3" >out 2>err </dev/null
  found=$?
  if [ "$found" != "$status" ] || [[ "$(cat err)" != *"$message" ]]; then
    printf '%s\n  expected %s: %s\n  found %s: %s\n' "$3" "$status" "$message" "$found" "$(cat err)"
    failures=$((failures + 1))
  fi
}

# expect_text TEXT FILE
expect_text() {
  grep -q -- "$1" "$2" || { echo "$2: expected $1, found $(head -c 200 "$2")"; failures=$((failures + 1)); }
}

millrace-records synth --rows=2000 --test_rows=100 --num_features=1000 --shards=1 --out=data >/dev/null 2>&1
train="millrace-lr --train=data/train-00000-of-00001.tfrecord --num_features=1000"
test=data/test-00000-of-00001.tfrecord
$train --run_dir=run >/dev/null || exit 1
model=run/model/model.bin

# A standard output that is full or closed is an error.
full='cannot write standard output: No space left on device'
for program in convnet launch lr predict ps records report; do
  expect 1 "millrace-$program: $full" "millrace-$program --help >/dev/full"
done
expect 1 "$full" "$train >/dev/full"
expect 1 "$full" "millrace-records verify $test >/dev/full"
expect 1 "$full" "millrace-report --nohtml --nomerge run >/dev/full"
expect 1 "$full" "millrace-convnet --net=lenet --graph=- >/dev/full"
expect 1 "$full" "millrace-predict --model=$model $test >/dev/full"
closed='cannot write standard output: Bad file descriptor'
expect 1 "$closed" "$train --run_dir=closed >&-"
expect_text '"status":"finished"' closed/run.json
expect 1 "$closed" "millrace-predict --model=$model $test >&-"

# Training continues when the reader of its output exits.
cat >without_reader.py <<'P'
import os, subprocess, sys
reader, writer = os.pipe()
os.close(reader)
sys.exit(subprocess.call(sys.argv[1:], stdout=writer))
P
expect 1 'cannot write standard output: Broken pipe' "python3 without_reader.py $train --test=$test --run_dir=left"
expect_text '"status":"finished"' left/run.json

# One signal ends a program that reads from a pipe without a writer.
mkfifo pipe
expect 124 '' "timeout -k 9 1 millrace-predict --model=$model pipe"

# Where a pipe makes no sense, it is refused: it would block until it has a writer.
regular='pipe: expected a regular file, found a FIFO'
expect 2 "$regular" "timeout 5 millrace-predict --model=pipe $test"
expect 2 "$regular" "timeout 5 millrace-predict --model=$model --top=3 --vocabulary=pipe"
expect 2 "$regular" "timeout 5 $train --model_in=pipe"
expect 2 "$regular" 'timeout 5 millrace-lr --train=@pipe --num_features=9'
expect 2 "$regular" 'timeout 5 millrace-records convert --format=criteo --vocabulary=pipe --out=converted x'
expect 2 'pipe: a pipe can be read once only: expected eval_every = 0' "timeout 5 $train --test=pipe --eval_every=100"
expect 2 'pipe: a pipe can be read once only: expected epochs = 1' 'timeout 5 millrace-lr --train=pipe --epochs=2'
expect 2 'the format of a pipe cannot be detected; set --format=libsvm, vw, criteo, mnist or images' \
  'timeout 5 millrace-records convert --out=converted pipe'

# A small file cannot fill the memory: one record of 2 GiB, one endless line.
python3 -c 'print("1" + " " * 400000000)' | gzip -1 >bomb.libsvm.gz
limit='if the file is right, raise --max_record_mb'
expect 1 "expected at most 33554432 bytes, found no newline in 33554433; $limit" \
  "ulimit -v 1000000; millrace-lr --train=bomb.libsvm.gz --num_features=9"
expect 1 "expected at most 33554432 bytes, found no newline in 33554433; $limit" \
  "ulimit -v 1000000; millrace-predict --model=$model bomb.libsvm.gz"
expect 1 "expected at most 1048576 bytes, found no newline in 1048577; $limit" \
  'millrace-records convert --format=libsvm --max_record_mb=1 --out=converted bomb.libsvm.gz'
expect 2 '--max_record_mb=0: expected 1 to 2048' "millrace-records stat --max_record_mb=0 $test"

# Control characters of data and names do not reach the terminal.
printf '1 1:x\n' >$'esc\033[31m.libsvm'
expect 1 'esc\x1b[31m.libsvm:1: offset 0: column 5: expected a finite value after index 1, found "x"' \
  "millrace-lr --train='"$'esc\033[31m.libsvm'"' --num_features=9"

# Values out of range.
expect 2 '--threads=100000000: expected at most 1024' "millrace-records stat --threads=100000000 $test"
expect 2 '--threads=100000000: expected at most 1024' "millrace-records verify --threads=100000000 $test"
expect 2 'num_workers: expected 1 to 4096, found 18446744073709551615' 'millrace-ps --num_workers=18446744073709551615'
expect 2 'num_ps: expected 1 to 4096, found 0' 'millrace-ps --num_ps=0'
expect 2 '--rejoin_seconds=nan: expected 0 to 1000000' 'millrace-ps --rejoin_seconds=nan'
expect 1 'millrace-predict: not enough memory' \
  "ulimit -v 1000000; head -c 3000000000 /dev/zero | millrace-predict --model=$model --format=libsvm --threads=1 --max_record_mb=2048 -"

# A run that cannot begin writes no run.json.
mkfifo listening
millrace-ps --listen=127.0.0.1:0 >listening &
server=$!
exec 3<listening
read -r line <&3 || exit 1
port=${line##*:}
expect 1 "cannot listen on 127.0.0.1:$port: Address already in use" "$train --run_dir=busy --dashboard=$port"
[ ! -e busy/run.json ] || { echo "busy/run.json: expected no run"; failures=$((failures + 1)); }
expect 1 "cannot listen on 127.0.0.1:$port: Could not bind: Address already in use" "millrace-ps --listen=127.0.0.1:$port"
kill $server
wait $server
server=

# Checked before the training.
mkdir folder
expect 2 '--model_out=folder: expected a file, found a folder' "$train --model_out=folder"
expect 2 '--model_out=folder: expected a file, found a folder' 'millrace-convnet --data=synthetic --model_out=folder'

# Errors name the file.
expect 1 'millrace-ps: --tls_cert=nowhere.pem: No such file or directory' \
  'millrace-ps --tls_cert=nowhere.pem --tls_key=k --tls_ca=c'
: >empty.tfrecord
expect 2 'the training data has no examples: empty.tfrecord' 'millrace-lr --train=empty.tfrecord --num_features=9'

[ "$failures" = 0 ] && echo "failures: all as expected"
exit $((failures > 0))
