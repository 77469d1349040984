#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes follow the arrows, and only the arrows:

    tools -> convnets -> trainer -> ps -> sparse -> io -> profiler

A folder may include itself and the folders to its right, except the pairs in FORBIDDEN. Folders must not include each
other in a cycle; the files directly in a folder and those of each subfolder count as separate folders. RULES lists
where a third-party header may be included.
Usage: check_layers.py ROOT. Prints each violation; exit status 1 if there is one.
"""
import re
import sys

import source_tree
from source_tree import LAYERS

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)

# (library, its headers, where they may be included, in how many files of a folder at most)
RULES = [
    ("gflags", r"gflags/", ["tools", "tests/tools"], {}),
    ("oneDNN", r"(oneapi/)?dnnl", ["convnets", "tests"], {}),
    ("OpenMP", r"omp\.h$", ["convnets"], {"convnets": 1}),
    ("libjpeg", r"jpeglib\.h$|jerror\.h$", ["convnets", "tests"], {"convnets": 1}),
    ("libpng", r"png\.h$", ["convnets", "tests"], {"convnets": 1}),
    ("Thrift", r"thrift/", ["ps", "tools/serve", "tests"], {"tools": 1}),
    ("Boost", r"boost/", ["tools/http"], {"tools": 1}),
    ("OpenSSL", r"openssl/", ["ps"], {"ps": 1}),
    ("MKL", r"mkl", ["sparse", "tests"], {"sparse": 1}),
    ("protobuf", r"google/protobuf/|.*\.pb\.h$", ["io", "tests"], {"io": 1}),
    ("zlib", r"zlib\.h$", ["io/record", "tests"], {}),
    ("zstd", r"zstd(_errors)?\.h$|zdict\.h$", ["io/record", "tests"], {}),
    ("libcurl", r"curl/", ["io/record"], {"io": 1}),
    ("simdjson", r"simdjson\.h$", ["io/features", "io/text", "tools/serve", "tests"],
     {"io/features": 1, "io/text": 1, "tools": 1}),
    ("the headers of libmillrace-score", r"millrace/scorer?\.h$", ["sparse/score", "tools", "tests"], {}),
    ("pybind11", r"pybind11/", ["tools/python"], {"tools": 1}),
    ("GoogleTest", r"g(test|mock)/", ["tests"], {}),
    ("Google Benchmark", r"benchmark/", ["tests"], {}),
]

# Includes between folders that are not allowed although they follow the arrows.
FORBIDDEN = {
    "convnets": ["trainer/sparse", "trainer/model"],
    "trainer/run": ["trainer/loop", "trainer/sparse", "trainer/model"],
    "trainer/loop": ["trainer/sparse", "trainer/model"],
    "trainer/model": ["trainer/loop", "trainer/sparse"],
    "ps/worker": ["ps/server"],
    "ps/server": ["ps/worker"],
    "ps/wire": ["ps/server", "ps/worker"],
    "io/record": ["io/batch", "io/example", "io/table", "io/rows", "io/state", "io/stream", "io/text", "io/queue"],
    "io/batch": ["io/example", "io/text", "io/rows", "io/stream", "io/queue"],
    "io/table": ["io/example", "io/text", "io/rows", "io/stream", "io/queue"],
    "io/example": ["io/rows", "io/stream", "io/queue"],
    "io/text": ["io/rows", "io/stream", "io/queue"],
    "io/features": ["io/example", "io/text", "io/rows", "io/stream", "io/queue"],
    "io/rows": ["io/stream", "io/queue"],
    "io/stream": ["io/queue"],
}

STANDARD = re.compile(r"^[a-z_0-9]+$")
# POSIX, Linux and the compiler's own headers.
SYSTEM = re.compile(
    r"^((arpa|net|netinet|sys|linux)/.+|x86intrin|(imm|nmm|smm|wmm)intrin|cpuid|dirent|dlfcn|errno|fcntl|fnmatch|glob|ifaddrs|"
    r"grp|limits|locale|netdb|poll|pthread|pwd|sched|semaphore|signal|spawn|stddef|stdint|stdio|stdlib|string|strings|stddef|"
    r"time|unistd|wordexp|cxxabi|execinfo|malloc)(\.h)?$"
)
GENERATED = re.compile(r"^gen-cpp/")  # by the Thrift compiler


def check_arrow(path, header):
    """What is wrong with `path` including the project's `header`, or None."""
    here, there = path.parts[0], header.split("/")[0]
    if GENERATED.match(header):
        known = here in ("ps", "tests") or path.parts[:2] == ("tools", "serve")
        return None if known else "generated Thrift code belongs to ps and tools/serve"
    if there not in LAYERS + ["tests"]:
        return "write project includes from the root, and others in <>"
    if here == "tests":
        return None
    if there == "tests":
        return "only tests include tests"
    if LAYERS.index(there) < LAYERS.index(here):
        return f"{here} must not know {there}"
    return next((f"{folder} must not know {other}" for folder, others in FORBIDDEN.items() for other in others
                 if str(path).startswith(folder + "/") and header.startswith(other + "/")), None)


def rule_for(header):
    return next((rule for rule in RULES if re.match(rule[1], header)), None)


def check_library(path, header):
    """What is wrong with `path` including <header>, or None."""
    if STANDARD.match(header) or SYSTEM.match(header):
        return None
    rule = rule_for(header)
    if rule is None:
        return "no rule for this library: add one to RULES in tests/lint/check_layers.py"
    name, _, folders, _ = rule
    if not any(str(path).startswith(folder + "/") for folder in folders):
        return f"{name} may be included only in {', '.join(folders)}"
    return None


def check_counts(users):
    """users: {(library, folder): set of paths}."""
    for name, _, _, limits in RULES:
        for folder, limit in limits.items():
            paths = users.get((name, folder), set())
            if len(paths) > limit:
                yield f"{name} is in {len(paths)} files of {folder}, at most {limit}: {sorted(paths)}"


def folder_graph(includes):
    """{folder: {included folder: (path, header)}}, one example of each include. `includes`: (path, header) pairs."""
    graph = {}
    for path, header in includes:
        here, there = str(path.parent), header.rpartition("/")[0]
        if here != there:
            graph.setdefault(here, {}).setdefault(there, (path, header))
    return graph


def shortest_cycle(graph, start):
    """The shortest list of (path, header) that leads from the folder `start` back to it, or None."""
    paths, seen = [(start, [])], set()
    for folder, steps in paths:  # grows: a breadth-first search
        for there, include in sorted(graph.get(folder, {}).items()):
            if there == start:
                return steps + [include]
            if there not in seen:
                seen.add(there)
                paths.append((there, steps + [include]))
    return None


def check_cycles(includes):
    """One problem for each cycle between folders."""
    graph, reported = folder_graph(includes), set()
    for folder in sorted(graph):
        cycle = shortest_cycle(graph, folder) if folder not in reported else None
        if cycle:
            reported.update(str(path.parent) for path, _ in cycle)
            steps = "; ".join(f"{path} includes {header}" for path, header in cycle)
            yield f"{folder}: folders include each other in a cycle: {steps}"


def check(root):
    problems, users, includes = [], {}, []
    for path in source_tree.code_files(root):
        for bracket, header in INCLUDE.findall(source_tree.read(root, path)):
            rule = rule_for(header)
            if rule:
                users.setdefault((rule[0], path.parts[0]), set()).add(str(path))
            project = bracket == '"' and not (rule and not header.startswith("tests/"))
            if project and path.parts[0] != "tests" and not GENERATED.match(header):
                includes.append((path, header))
            problem = check_arrow(path, header) if project else check_library(path, header)
            if problem:
                problems.append(f"{path}: #include {header}: {problem}")
    return problems + list(check_counts(users)) + list(check_cycles(includes))


def main():
    problems = check(sys.argv[1])
    print("\n".join(problems) if problems else "includes follow the arrows")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
