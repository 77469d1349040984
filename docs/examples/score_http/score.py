#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores rows, JSON objects, one a line on standard input, with millrace-serve.

Usage: score.py http://127.0.0.1:8500 < rows.jsonl
"""
import json
import sys
import urllib.error
import urllib.request


def score(url, rows):
    """The probabilities of the rows; the digits are those that the server sent."""
    request = urllib.request.Request(f"{url}/v1/score", json.dumps({"rows": rows}).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response, parse_float=str, parse_int=str)["scores"]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{error.code}: {json.load(error)['error']}") from error


def main():
    rows = [json.loads(line) for line in sys.stdin if line.strip()]
    for probability in score(sys.argv[1], rows):
        print(probability)


if __name__ == "__main__":
    main()
