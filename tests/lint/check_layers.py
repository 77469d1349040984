#!/usr/bin/env python3
"""Checks that includes follow the arrows, and only the arrows:

    tools -> convnets -> trainer -> ps -> sparse -> io -> profiler

A folder may include itself and what is to its right, but for what STRANGERS names. Third-party headers may be
included only where RULES lets them.
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
    ("Thrift", r"thrift/", ["ps", "tests"], {}),
    ("MKL", r"mkl", ["sparse", "tests"], {"sparse": 1}),
    ("protobuf", r"google/protobuf/|.*\.pb\.h$", ["io", "tests"], {"io": 1}),
    ("zlib", r"zlib\.h$", ["io/record", "tests"], {}),
    ("zstd", r"zstd(_errors)?\.h$|zdict\.h$", ["io/record", "tests"], {}),
    ("GoogleTest", r"g(test|mock)/", ["tests"], {}),
    ("Google Benchmark", r"benchmark/", ["tests"], {}),
]

# Folders that must not know others, though the arrows would let them.
STRANGERS = {
    "convnets": ["trainer/sparse", "trainer/model"],
    "trainer/run": ["trainer/loop", "trainer/sparse", "trainer/model"],
    "trainer/loop": ["trainer/sparse", "trainer/model"],
    "trainer/model": ["trainer/loop", "trainer/sparse"],
    "ps/worker": ["ps/server"],
    "ps/server": ["ps/worker"],
    "ps/wire": ["ps/server", "ps/worker"],
    "io/record": ["io/batch", "io/example", "io/rows", "io/stream", "io/queue"],
    "io/batch": ["io/example", "io/text", "io/rows", "io/stream", "io/queue"],
    "io/example": ["io/rows", "io/stream", "io/queue"],
    "io/text": ["io/rows", "io/stream", "io/queue"],
    "io/rows": ["io/stream", "io/queue"],
    "io/stream": ["io/queue"],
}

STANDARD = re.compile(r"^[a-z_0-9]+$")
# POSIX, Linux and the compiler's own headers.
SYSTEM = re.compile(
    r"^((arpa|net|netinet|sys|linux)/.+|x86intrin|(imm|nmm|smm|wmm)intrin|cpuid|dirent|dlfcn|errno|fcntl|fnmatch|glob|ifaddrs|"
    r"grp|limits|locale|netdb|poll|pthread|pwd|sched|semaphore|signal|spawn|stdint|stdio|stdlib|string|strings|"
    r"time|unistd|wordexp|cxxabi|execinfo|malloc)(\.h)?$"
)
GENERATED = re.compile(r"^gen-cpp/")  # by the Thrift compiler


def check_arrow(path, header):
    """What is wrong with `path` including the project's `header`, or None."""
    here, there = path.parts[0], header.split("/")[0]
    if GENERATED.match(header):
        return None if here in ("ps", "tests") else "generated Thrift code belongs to ps"
    if there not in LAYERS + ["tests"]:
        return "write project includes from the root, and others in <>"
    if here == "tests":
        return None
    if there == "tests":
        return "only tests include tests"
    if LAYERS.index(there) < LAYERS.index(here):
        return f"{here} must not know {there}"
    return next((f"{folder} must not know {stranger}" for folder, stranger in strangers()
                 if str(path).startswith(folder + "/") and header.startswith(stranger + "/")), None)


def strangers():
    return ((folder, stranger) for folder, others in STRANGERS.items() for stranger in others)


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


def check(root):
    problems, users = [], {}
    for path in source_tree.code_files(root):
        for bracket, header in INCLUDE.findall(source_tree.read(root, path)):
            rule = rule_for(header)
            if rule:
                users.setdefault((rule[0], path.parts[0]), set()).add(str(path))
            project = bracket == '"' and not (rule and not header.startswith("tests/"))
            problem = check_arrow(path, header) if project else check_library(path, header)
            if problem:
                problems.append(f"{path}: #include {header}: {problem}")
    return problems + list(check_counts(users))


def main():
    problems = check(sys.argv[1])
    print("\n".join(problems) if problems else "includes follow the arrows")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
