#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a Chrome trace as strict JSON and lists it, a line for each event, tab-separated: list_spans.py FILE"""
import json
import sys


def refuse(word):
    raise ValueError(word + " is no JSON")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        trace = json.load(file, parse_constant=refuse)
    other = trace["otherData"]
    print("dropped", other["dropped_spans"], sep="\t")
    print("steps", other["steps"], sep="\t")
    print("offset", other["clock_offset_ns"], other["process"], sep="\t")
    for event in trace["traceEvents"]:
        args = event["args"]
        if event["ph"] == "M":
            print(event["name"], event["tid"], args["name"], sep="\t")
        elif event["ph"] == "X":
            row = [event["tid"], event["name"], event["ts"], event["dur"], args.get("rows", -1), args.get("bytes", -1)]
            print("span", *row, event["cat"], json.dumps(args), sep="\t")
        elif event["ph"] == "C":
            print("counter", event["name"], args["value"], sep="\t")
        else:
            assert event["ph"] in "sf" and event.get("bp", "e") == "e", event
            print("flow", event["ph"] + event["id"], event["ts"], sep="\t")


if __name__ == "__main__":
    main()
