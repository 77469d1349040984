# SPDX-License-Identifier: Apache-2.0
"""The experiments of the old reports, run again: python3 -m experiments (started by tools/experiments.sh)."""
