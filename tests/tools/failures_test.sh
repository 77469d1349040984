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

# expect STATUS MESSAGE COMMAND: standard error ends with MESSAGE, in which ? is any character.
expect() {
  local status=$1 message=$2 found
  timeout -k 5 120 bash -c "$3" >out 2>err </dev/null
  found=$?
  if [ "$found" != "$status" ] || [[ "$(cat err)" != *$message ]]; then
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
for program in convnet launch lr predict ps records report serve; do
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
expect 124 '' "timeout -k 9 1 millrace-predict --model=$model --format=tfrecord pipe"

# Where a pipe makes no sense, it is refused: it would block until it has a writer.
regular='pipe: expected a regular file, found a FIFO'
expect 2 "$regular" "timeout 5 millrace-predict --model=pipe $test"
expect 2 "$regular" "timeout 5 millrace-predict --model=$model --top=3 --vocabulary=pipe"
expect 2 "$regular" "timeout 5 $train --model_in=pipe"
expect 2 "$regular" 'timeout 5 millrace-lr --train=@pipe --num_features=9'
expect 2 "$regular" 'timeout 5 millrace-records convert --format=criteo --vocabulary=pipe --out=converted x'
expect 2 'pipe: a pipe can be read once only: expected eval_every = 0' "timeout 5 $train --format=tfrecord --test=pipe --eval_every=100"
expect 2 'pipe: a pipe can be read once only: expected epochs = 1' 'timeout 5 millrace-lr --format=tfrecord --train=pipe --epochs=2'
expect 2 'standard input: expected TFRecords*found XML or HTML*' "echo '<xml>' | millrace-lr --train=-"

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
expect 1 'esc\\x1b\[31m.libsvm:1: offset 0: column 5: expected a finite value after index 1, found "x"' \
  "millrace-lr --train='"$'esc\033[31m.libsvm'"' --num_features=9"

# Values out of range.
expect 2 '--threads=100000000: expected at most 1024' "millrace-records stat --threads=100000000 $test"
expect 2 '--threads=100000000: expected at most 1024' "millrace-records verify --threads=100000000 $test"
expect 2 'num_workers: expected 1 to 4096, found 18446744073709551615' 'millrace-ps --num_workers=18446744073709551615'
expect 2 'num_ps: expected 1 to 4096, found 0' 'millrace-ps --num_ps=0'
expect 2 '--rejoin_seconds=nan: expected 0 to 1000000' 'millrace-ps --rejoin_seconds=nan'
expect 2 'reconnect_seconds: expected 0 to 1000000, found -1' \
  "$train --mode=sync --job_name=worker --ps_hosts=a:1 --worker_hosts=a --reconnect_seconds=-1"

# A server that other hosts can reach needs a token.
for address in '--listen=0.0.0.0:0' '--listen=[::]:0' '--ps_hosts=node1:7000 --worker_hosts=a'; do
  expect 2 'give all processes of the job the same --token_file=FILE (mode 600), or this server --insecure_no_token' \
    "timeout -k 9 5 millrace-ps $address"
done
(umask 077; echo secret >token)
for allowed in --insecure_no_token --token_file=token; do
  expect 124 '' "timeout 1 millrace-ps --listen=0.0.0.0:0 $allowed"
  expect_text 'listening on 0.0.0.0:' out
done
expect 2 '--insecure_no_token has no effect with --token_file=token' \
  'millrace-ps --listen=0.0.0.0:0 --token_file=token --insecure_no_token'
expect 2 'insecure_no_token has no effect on the loopback address 127.0.0.1' 'millrace-ps --insecure_no_token'
expect 1 'millrace-predict: not enough memory: an allocation failed; ??? MB are mapped, the limit (ulimit -v) is 976 MB' \
  "ulimit -v 1000000; head -c 3000000000 /dev/zero | millrace-predict --model=$model --format=libsvm --threads=1 --max_record_mb=2048 -"

expect 1 'the limit (ulimit -v) is 78 MB' "ulimit -v 80000; $train --learning_rate=0.1 --normalize=off --batch_size=100 --threads=64"
expect_text 'not enough memory: cannot start a thread' err
expect 2 'num_features = 50000000: not enough memory for the model: cannot allocate 0.? GB' \
  'ulimit -v 300000; millrace-lr --train=data/train-00000-of-00001.tfrecord --num_features=50000000'
# A zstd frame with a window of 128 MiB and a block of 16 bytes: memory, not the file, is at fault.
printf '\x28\xb5\x2f\xfd\x00\x88\x81\x00\x00AAAAAAAAAAAAAAAA' >window.zst
expect 1 'the limit (ulimit -v) is 117 MB' 'ulimit -v 120000; millrace-records verify window.zst'
expect_text 'millrace-records: not enough memory: an allocation failed' err

# A FIFO in place of a file with a fixed name or a secret is an error, and never blocks.
mkfifo -m 600 secret
expect 2 '--token_file: secret: expected a regular file, found another kind of file' 'millrace-ps --token_file=secret'
expect 2 '--tls_cert=secret: expected a regular file, found another kind of file' \
  'millrace-ps --tls_cert=secret --tls_key=secret --tls_ca=secret'
mkdir -p fifos/checkpoints
mkfifo fifos/run.json fifos/metrics.csv fifos/resources-worker-0.csv fifos/checkpoints/checkpoint-000000000005
expect 2 'fifos holds an earlier run (unknown): choose another run_dir, continue that run with resume, or erase it with overwrite' \
  "$train --run_dir=fifos"
expect 2 'cannot create fifos/run.json: expected a regular file or none, found another kind' "$train --run_dir=fifos --resume"
rm fifos/run.json
expect 2 'cannot create fifos/metrics.csv: expected a regular file or none, found another kind' "$train --run_dir=fifos --overwrite"
rm fifos/metrics.csv
expect 0 '' "$train --run_dir=fifos --overwrite"

# Links in a run folder are replaced, or refused; what they lead to stays as it is.
mkdir foreign
echo precious | tee foreign/checkpoint-000000000001 foreign/file >/dev/null
mkdir -p links/model
for name in run.json metrics.csv metrics.jsonl resources-worker-0.csv model/model.bin trace-worker-0.json.tmp; do
  ln -s "$folder/foreign/file" links/$name
done
expect 0 '' "$train --run_dir=links --profile --overwrite --checkpoint_every=500"
[ -f links/model/model.bin ] && [ ! -L links/model/model.bin ] || { echo 'expected a model'; failures=$((failures + 1)); }
mkdir linked
ln -s ../foreign linked/checkpoints
expect 2 'linked holds an earlier run (unknown): choose another run_dir, continue that run with resume, or erase it with overwrite' "$train --run_dir=linked --checkpoint_every=500"
expect 2 'linked/checkpoints: expected a folder, found a symbolic link' \
  "$train --run_dir=linked --checkpoint_every=500 --overwrite"
[ "$(cat foreign/*)" = $'precious\nprecious' ] || { echo 'foreign files have changed'; failures=$((failures + 1)); }

# A run that begins removes the temporary files of a killed one.
touch run/run.json.tmp-1-0 run/writable.tmp-1-0 run/model/model.bin.tmp-1-0 run/checkpoints/writable.tmp-1-0
touch run/notes.tmp-1-0 run/checkpoints/checkpoint-notes
expect 0 '' "$train --run_dir=run --overwrite"
[ "$(find run -name '*.tmp-*' -o -name checkpoint-notes | sort)" = $'run/checkpoints/checkpoint-notes\nrun/notes.tmp-1-0' ] ||
  { find run; failures=$((failures + 1)); }

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
