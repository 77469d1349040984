#!/usr/bin/env bash
# What goes wrong around a program is told in one line on standard error, with the right exit status.
# Usage: failures_test.sh BIN_DIR
set -u
PATH=$1:$PATH
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0

# expect STATUS MESSAGE COMMAND: MESSAGE is the end of what standard error says.
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

# Standard output that cannot be written, or is closed: no result is lost without a word.
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

# A reader that leaves does not end a training.
cat >without_reader.py <<'P'
import os, subprocess, sys
reader, writer = os.pipe()
os.close(reader)
sys.exit(subprocess.call(sys.argv[1:], stdout=writer))
P
expect 1 'cannot write standard output: Broken pipe' "python3 without_reader.py $train --test=$test --run_dir=left"
expect_text '"status":"finished"' left/run.json

# Waiting for a pipe that nobody writes to is ended by one signal.
mkfifo pipe
expect 124 '' "timeout -k 9 1 millrace-predict --model=pipe $test"
expect 124 '' "timeout -k 9 1 millrace-predict --model=$model pipe"

# Numbers beyond reason.
expect 2 '--threads=100000000: expected at most 1024' "millrace-records stat --threads=100000000 $test"
expect 2 '--threads=100000000: expected at most 1024' "millrace-records verify --threads=100000000 $test"
expect 2 'num_workers: expected 1 to 4096, found 18446744073709551615' 'millrace-ps --num_workers=18446744073709551615'
expect 2 'num_ps: expected 1 to 4096, found 0' 'millrace-ps --num_ps=0'
expect 2 '--rejoin_seconds=nan: expected 0 to 1000000' 'millrace-ps --rejoin_seconds=nan'
expect 1 'millrace-predict: not enough memory' \
  "ulimit -v 1000000; head -c 3000000000 /dev/zero | millrace-predict --model=$model --format=libsvm --threads=1 -"

# A run that could not begin does not seem to go on.
millrace-ps --listen=127.0.0.1:0 >listening &
server=$!
until grep -q listening listening; do kill -0 $server || exit 1; sleep 0.05; done
port=$(sed 's/.*://' listening)
expect 1 "cannot listen on 127.0.0.1:$port: Address already in use" "$train --run_dir=busy --dashboard=$port"
[ ! -e busy/run.json ] || { echo "busy/run.json: expected no run"; failures=$((failures + 1)); }
expect 1 "cannot listen on 127.0.0.1:$port: Could not bind: Address already in use" "millrace-ps --listen=127.0.0.1:$port"
kill $server
wait $server
server=

# Found out before anything is learnt.
mkdir folder
expect 2 '--model_out=folder: expected a file, found a folder' "$train --model_out=folder"
expect 2 '--model_out=folder: expected a file, found a folder' 'millrace-convnet --data=synthetic --model_out=folder'

# The file is named.
expect 1 'millrace-ps: --tls_cert=nowhere.pem: No such file or directory' \
  'millrace-ps --tls_cert=nowhere.pem --tls_key=k --tls_ca=c'
: >empty.tfrecord
expect 2 'the training data has no examples: empty.tfrecord' 'millrace-lr --train=empty.tfrecord --num_features=9'

[ "$failures" = 0 ] && echo "failures: all as expected"
exit $((failures > 0))
