#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the experiments of the old reports and compares our figures with theirs: see --help and docs/experiments.md.
set -euo pipefail
tools=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || "$tools/setup.sh"
PYTHONPATH="$tools" exec python3 -B -m experiments "$@"
