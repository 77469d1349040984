#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sources the completion scripts of all programs and calls them as bash does.
# Usage: bash_completion_test.sh BIN_DIR
set -u
bin=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
mkdir run-1 run-2
touch "train 1.tfrecord" train-2.tfrecord model.bin
failures=0

for program in convnet launch lr predict ps records report serve; do
  script=$("$bin/millrace-$program" --help=bash) && eval "$script" || exit 1
done

# complete_line WORD...: the last word is at the cursor. Bash splits the line at "=".
complete_line() {
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  "_${1//-/_}"
}

# expect EXPECTED WORD...: the completions, sorted, separated by |.
expect() {
  local expected=$1 found
  shift
  complete_line "$@"
  found=$(printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd '|')
  [ "$found" = "$expected" ] && return
  printf 'after "%s": expected %s, found %s\n' "$*" "$expected" "$found"
  failures=$((failures + 1))
}

expect '--max_examples=|--max_record_mb=' millrace-lr --max
expect '--nooverwrite' millrace-lr --noo
expect 'adagrad|adam|ftrl|sgd' millrace-lr --optimizer =
expect 'adagrad|adam' millrace-lr --optimizer = ad
expect 'adagrad|adam' millrace-lr --optimizer ad
expect 'adagrad|adam' millrace-lr --optimizer=ad
expect 'async' millrace-lr --optimizer = sgd --mode = as
expect 'train 1.tfrecord|train-2.tfrecord' millrace-lr --train = train
expect 'run-1|run-2' millrace-lr --run-dir = ''
expect '' millrace-lr --num_features = ''
expect '' millrace-lr --seed ''
expect '--epochs=' millrace-lr --resume --ep
expect 'cat|convert' millrace-records c
expect '--compression=' millrace-records synth --comp
expect 'gzip|none|zlib|zstd' millrace-records synth --compression =
expect '' millrace-records cat --comp
expect 'train 1.tfrecord|train-2.tfrecord' millrace-records cat tr
expect 'margin' millrace-predict --output m
expect 'model.bin' millrace-predict --model = mod
expect '--weights=' millrace-predict export --w
expect 'bf16' millrace-predict export --weights = b
expect 'run-1|run-2' millrace-report r
expect 'lenet' millrace-convnet --net = l
expect 'cluster|cluster2' millrace-launch --deploy_mode = cl
expect 'model.bin' millrace-launch --deploy_mode = cluster -- millrace-lr m
expect '--listen=' millrace-ps --lis
expect 'error|ignore' millrace-serve --unknown_fields = ''
expect '--max_body_mb=|--max_connections=|--max_keys=' millrace-serve --max

# With bash-completion installed, the words after -- are completed as a command line.
if [ -r /usr/share/bash-completion/bash_completion ]; then
  . /usr/share/bash-completion/bash_completion
  COMP_LINE='millrace-launch --deploy_mode cluster -- millrace-lr --optimizer ad' COMP_POINT=${#COMP_LINE}
  expect 'adagrad|adam' millrace-launch --deploy_mode cluster -- millrace-lr --optimizer ad
fi

# The help text contains every word that a script offers.
for program in convnet launch lr predict ps report 'records synth' 'records convert' 'records cat'; do
  read -ra command <<<"$program"
  help=$("$bin/millrace-${command[0]}" "${command[@]:1}" --help)
  for flag in $(grep -o -- '^  --[a-z_0-9]*=NAME' <<<"$help"); do
    flag=${flag%=NAME}
    complete_line "millrace-${command[0]}" "${command[@]:1}" "$flag" = ''
    ((${#COMPREPLY[@]} > 1)) || { echo "$program $flag: no words"; failures=$((failures + 1)); }
    text=$(awk -v flag="  $flag=" 'index($0, flag) == 1 { on = 1; print; next }
      /^  --/ || /^$/ { on = 0 } on' <<<"$help")
    for word in "${COMPREPLY[@]}"; do
      grep -qw -- "$word" <<<"$text" || {
        echo "$program $flag: '$word' is not in the help text"; failures=$((failures + 1)); }
    done
  done
done

[ "$failures" = 0 ] && echo "completion: all as expected"
exit $((failures > 0))
