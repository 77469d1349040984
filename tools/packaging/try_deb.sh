#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages that cpack made into a clean Debian 12 (only section main), trains there, builds the examples
# with clang++ and the library, and removes the packages again.
# As root, with debootstrap installed. The folder is created if it does not exist, and is kept.
#
#   tools/packaging/try_deb.sh build /tmp/clean-root
set -euo pipefail
[ $# = 2 ] || { sed -n '3,8s/^# \{0,1\}//p' "$0"; exit 2; }
packages=$1 root=$2
say() { printf '\n== %s\n' "$*"; }
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

if [ ! -e "$root/etc/debian_version" ]; then
  say "a clean Debian 12 in $root"
  debootstrap --variant=minbase --components=main bookworm "$root" >/dev/null
fi
mountpoint -q "$root/proc" || { mount -t proc proc "$root/proc"; trap 'umount "$root/proc"' EXIT; }
cp "$packages"/millrace_*_*.deb "$root/root/millrace.deb"
cp "$packages"/libmillrace-dev_*_*.deb "$root/root/libmillrace-dev.deb"
cp "$packages"/libmillrace-score0_*_*.deb "$root/root/libmillrace-score0.deb"
python=  # the package, if the build made it
if compgen -G "$packages/python3-millrace_*_*.deb" >/dev/null; then
  python=python3-millrace
  cp "$packages"/python3-millrace_*_*.deb "$root/root/python3-millrace.deb"
fi
inside apt-get update -qq
list_files() { (cd "$root" && find . -xdev -path ./proc -prune -o -path ./var -prune -o -path ./root -prune -o -print | sort); }

say "apt-get install"
inside apt-get install -y -q --no-install-recommends /root/millrace.deb | grep -E '^(The following|  |Setting up millrace|Need to get|After this)' || true
inside dpkg -s millrace | grep -E '^(Status|Version|Depends)'
say "train"
inside sh -c 'cd /root && rm -rf data run &&
  millrace-records synth --rows=100000 --test_rows=10000 --out=data 2>&1 | tail -n 3 &&
  millrace-lr --train="data/train-*" --test="data/test-*" --num_features=33762578 --run_dir=run &&
  millrace-predict --model=run/model/model.bin --metrics --out=/dev/null "data/test-*" &&
  millrace-launch --deploy_mode=cluster -- millrace-lr --mode=sync --train="data/train-*" --num_features=33762578 2>&1 | tail -n 4 &&
  millrace-convnet --net=lenet --data=synthetic --max_examples=640 | tail -n 3 &&
  millrace-report run | tail -n 3'
say "serve"
inside bash -c 'cd /root && { millrace-serve --model=run --port=8500 & } && sleep 2 && exec 3<>/dev/tcp/127.0.0.1/8500 &&
  printf "GET /v1/model HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" >&3 && cat <&3 && echo && kill %1 && wait'
inside sh -c 'ls -l /usr/lib/systemd/system/millrace-serve.service'
say "man page and completion"
inside sh -c 'zcat /usr/share/man/man1/millrace-lr.1.gz | head -n 3; ls /usr/share/bash-completion/completions/millrace-*'
say "kernel mkl without MKL"
inside millrace-lr --kernel=mkl --train='/root/data/train-*' --num_features=33762578 || echo "exit status $?"

say "examples with the library"
inside apt-get install -y -qq --no-install-recommends clang cmake make /root/libmillrace-score0.deb /root/libmillrace-dev.deb >/dev/null
inside dpkg -s libmillrace-dev | grep -E '^(Status|Version|Depends)'
for example in read_tfrecords train_model score_rows; do
  inside sh -c "rm -rf /root/$example && CXX=clang++ cmake -S /usr/share/doc/millrace/docs/examples/$example -B /root/$example &&
    cmake --build /root/$example" | tail -n 1
done
inside sh -c "cd /root && read_tfrecords/read_tfrecords 'data/test-*' | tail -n 1 &&
  train_model/train_model 'data/train-*' 'data/test-*' 33762578 model.bin | tail -n 2"

say "the scoring library in C"
inside sh -c 'cd /root && printf "y,a,b\n1,x,1\n0,y,2\n" >rows.csv && printf "{\"a\":\"x\",\"b\":1}\n{\"a\":\"y\",\"b\":2}\n" >rows.jsonl &&
  printf "{\"label\":{\"column\":\"y\"},\"fields\":[{\"name\":\"a\"},{\"name\":\"b\"}]}" >spec.json &&
  millrace-lr --train=rows.csv --features=spec.json --run_dir=rows >/dev/null &&
  millrace-predict export --model=rows --out=rows.serving >/dev/null && millrace-predict --model=rows rows.csv >expected &&
  score_rows/score_rows rows.serving <rows.jsonl | cmp - expected && cat expected'

if [ -n "$python" ]; then
  say "Python"
  inside apt-get install -y -qq --no-install-recommends python3-sklearn /root/python3-millrace.deb >/dev/null
  inside dpkg -s python3-millrace | grep -E '^(Status|Version|Depends)'
  inside python3 -c 'import itertools, millrace
batches = list(itertools.islice(millrace.read_records("/root/data/test-*", num_features=33762578, batch_size=1000), 10))
model = millrace.LogisticRegression(batch_size=100)
for batch in batches: model.partial_fit(batch.X, batch.y, classes=[0, 1])
print(millrace.__version__, "last loss", round(model.loss_, 3), millrace.Run("/root/run"))'
fi

say "apt-get purge"
with=$(list_files)
inside apt-get purge -y -qq millrace libmillrace-dev libmillrace-score0 $python >/dev/null
gone=$(comm -23 <(echo "$with") <(list_files))
left=$(list_files | grep -i millrace || true)
echo "$(wc -l <<<"$gone") files and folders removed, left: ${left:-nothing}"
[ -z "$left" ]
