#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/run_folder from the folder of a small run: make_run_folder_corpus.py RUN_DIR

RUN_DIR is the run of a job with two workers and one server, for example of

    millrace-launch --num_ps=1 --num_workers=2 -- millrace-lr --mode=sync --profile --sample_ms=5 --batch_size=500 ...
"""
import gzip
import pathlib
import re
import sys

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus" / "run_folder"
FILES = ["run.json", "metrics.csv", "resources-worker-0.csv", "resources-ps-0.csv", "trace-worker-0.json", "trace-ps-0.json"]
GRAPH = b'digraph net {\n  "conv1" [label="conv1\\nconv -> 6x28x28\\n156 parameters"];\n  "labels" [label="labels"];\n}\n'


def shorter(trace):
    """A third of the events are enough, and mutate faster. Names of threads and of the process stay."""
    head, *events, tail = trace.rstrip(b"\n").split(b"\n")
    kept = [event.rstrip(b",") for i, event in enumerate(events) if i % 3 == 0 or b'"ph":"M"' in event]
    return b"\n".join([head, b",\n".join(kept), tail])


def write(name, files):
    (CORPUS / name).write_bytes(b"".join(b"@@" + file.encode() + b"\n" + data + b"\n" for file, data in files.items()))


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(sys.argv[1])
    job = {name: (folder / name).read_bytes() for name in FILES}
    job["graph.dot"] = GRAPH
    for name in FILES:
        if name.startswith("trace-"):
            job[name] = shorter(job[name])
    write("job", job)
    trace, samples = job["trace-worker-0.json"], job["resources-worker-0.csv"]
    write("worker", {name: job[name] for name in ("run.json", "metrics.csv", "resources-worker-0.csv", "trace-worker-0.json")})
    write("recent", {"run.json": job["run.json"], "recent-worker-0.json": trace})
    write("compressed", {"trace-worker-0.json.gz": gzip.compress(trace, mtime=0)})
    write("server_only", {"trace-ps-0.json": job["trace-ps-0.json"], "resources-ps-0.csv": job["resources-ps-0.csv"]})
    write("samples_without_times", {"resources-z.csv": b"x\n1\n2\n"})
    write("samples_without_lines", {"run.json": b"{}", "resources-z.csv": b""})
    write("samples_without_tcp", {"resources-worker-0.csv": b"\n".join(
        b",".join(line.split(b",")[:14] + line.split(b",")[19:]) for line in samples.split(b"\n"))})
    write("samples_column_twice", {"resources-z.csv": b"steady_ns,steady_ns,clock_offset_ns,threads\n1,2,3,\n4,5,6,\n"})
    write("samples_infinite", {"resources-z.csv": b"steady_ns,clock_offset_ns,a,threads\n1,2,inf,\n1e300,0,1,\n5,6,7,main@1=1+1;a@2=nan+1\n"})
    write("times_overflow", {"trace-worker-0.json": re.sub(rb'"steady_origin_ns":"\d+"', b'"steady_origin_ns":"9223372036854775000"', trace)})
    write("times_at_the_limit", {"trace-worker-0.json": re.sub(
        rb'"(steady_origin_ns|clock_offset_ns)":"-?\d+"', rb'"\1":"1000000000000000000"', trace.replace(b'"ts":', b'"ts":9e14,"ts0":', 3))})
    write("numbers_huge", {"trace-worker-0.json": trace.replace(b'"rows":', b'"rows":-1e300,"bytes":1e300,"nnz":')})
    write("escapes", {"trace-worker-0.json": b'{"traceEvents":[{"id":"\\u0041AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","ph":"\\u0073BBBB",'
                                             b'"name":"\\ud83d\\u0041\\udc00\\u001b[2J\\u009b","tid":1,"ts":1}]}'})
    write("negative_duration", {"trace-worker-0.json": trace.replace(b'"dur":', b'"dur":-')})
    (CORPUS / "metrics_twice").write_bytes(b"@@run.json\n{}\n" + 2 * b"@@metrics.csv\na,b\n1,2\n\n")
    write("names_with_controls", {"resources-w\x1b[5m.csv": samples, "metrics.csv": b"a b,c\"}\n1,2\n"})


if __name__ == "__main__":
    main()
