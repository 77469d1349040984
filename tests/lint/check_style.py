#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what can be checked of the style by a program. Usage: check_style.py ROOT [CHECK...]

Prints each violation; exit status 1 if there is one.
"""
import pathlib
import re
import shutil
import subprocess
import sys

import source_tree

LABELS = {"unit", "sim", "slow", "lint"}
README_LINES = 100
PERFORMANCE_LINES = 150
DOCS_COLUMNS = 110
LICENSED_SUFFIXES = {".h", ".cc", ".py", ".sh", ".js", ".thrift", ".proto"}
TEXT_SUFFIXES = {".h", ".cc", ".cmake", ".txt", ".md", ".py", ".sh", ".thrift", ".proto"}
HERE = ("tests", "lint")  # these files name what they forbid


def in_code(root, pattern, allowed=()):
    """Matches of pattern outside comments and literals, except in the folders `allowed`."""
    for path in source_tree.code_files(root):
        if path.parts[0] not in allowed:
            text = source_tree.code_only(source_tree.read(root, path))
            yield from source_tree.matches(root, path, pattern, text)


def check_format(root):
    """clang-format would change nothing."""
    tool = shutil.which("clang-format")
    if tool is None:
        print("clang-format is not installed: formatting is not checked")
        return
    paths = [str(path) for path in source_tree.code_files(root)]
    for begin in range(0, len(paths), 50):
        command = [tool, "--dry-run", "-Werror", "--style=file", *paths[begin : begin + 50]]
        run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        for line in sorted({line.split(":")[0] for line in run.stderr.splitlines() if "error:" in line}):
            yield f"{line}: run clang-format -i on it"


def check_unfinished(root):
    """Nothing is left for later in the code."""
    for path in source_tree.files(root, TEXT_SUFFIXES):
        if path.parts[:2] != HERE:
            pattern = r"\b(TODO|FIXME|XXX|HACK)\b"
            yield from source_tree.matches(root, path, pattern, source_tree.read(root, path))


# Private words, and what to say instead.
WORDS = {
    r"strangers?": "unauthenticated peer, pending connection",
    r"keepers?|crews?": "process shim, process group",
    r"last words": "last stderr line",
    r"accompan(y|ies|ied)|announce[sd]?|announcements?": "run an empty step, prefetch",
    r"(look|answer)(s|ed)?[- ]?ahead": "precompute, precomputed reply",
    r"pull memory": "reply cache",
    r"(settles?|settled)": "apply deferred",
    r"slopes?": "residuals",
    r"(open|indexed) models?": "hashed-key table, dense-index table",
    r"course of the run": "schedule",
    r"learnt": "learned, trained",
    r"for ever": "forever, always",
    r"likewise": "the same as",
    r"a thread each": "one thread per ...",
    r"the so many|one in so many|of so many values": "the N, one in N",
}


def check_words(root):
    """The field's own words: private ones cost every reader time."""
    for path in source_tree.files(root, TEXT_SUFFIXES | {".js", ".html"}):
        if path.parts[:2] == HERE:
            continue
        text = source_tree.read(root, path)
        for word, better in WORDS.items():
            for found in source_tree.matches(root, path, rf"(?i)\b({word})\b", text):
                yield f"{found}: say {better}"


def check_random(root):
    """Randomness comes from seeds, by io/base/random.h."""
    pattern = r"#\s*include\s*<random>|\bstd::s?rand\b|\bs?rand\s*\(|\brandom_device\b|\bmt19937(_64)?\b"
    yield from in_code(root, pattern, allowed=("tools", "tests"))


def check_memory(root):
    """No new (placement new aside), no delete."""
    yield from in_code(root, r"\bnew\s+[A-Za-z_:][^\n;]*|(?<!=)(?<!= )(?<!operator )\bdelete\b\s*(\[\s*\])?\s*[A-Za-z_*(][^\n;]*")


def check_environment(root):
    """Settings are flags. What mpirun, srun and ssh say is read in one file, credentials of AWS in another."""
    for problem in in_code(root, r"\b(secure_)?getenv\s*\("):
        if not problem.startswith(("tools/launch/environment.cc:", "tools/common/remote_flags.cc:")):
            yield problem


def check_headers(root):
    """Every header guards itself."""
    for path in source_tree.code_files(root):
        if path.suffix == ".h" and "\n#pragma once\n" not in "\n" + source_tree.read(root, path):
            yield f"{path}: no #pragma once"


def check_labels(root):
    """Every test has a label that means something."""
    for path in source_tree.files(root):
        if path.name != "CMakeLists.txt" and path.suffix != ".cmake":
            continue
        for match in re.finditer(r"\bLABELS?\s+\"?([A-Za-z_]+)", source_tree.read(root, path)):
            if match.group(1) not in LABELS:
                yield f"{path}: test label {match.group(1)}; known are {', '.join(sorted(LABELS))}"


def check_readme(root):
    """The README is short."""
    readme = pathlib.Path(root) / "README.md"
    if readme.exists():
        lines = len(readme.read_text(encoding="utf-8").splitlines())
        if lines >= README_LINES:
            yield f"README.md: {lines} lines, fewer than {README_LINES} are allowed"


def check_docs(root):
    """Pages wrap, and docs/performance.md is short."""
    for path in source_tree.files(root, {".md"}):
        lines = source_tree.read(root, path).splitlines()
        for number, line in enumerate(lines, 1):
            # Tables and images cannot wrap; indented lines may be what a program prints.
            if len(line) > DOCS_COLUMNS and not line.startswith(("|", "!", "    ")):
                yield f"{path}:{number}: {len(line)} columns, at most {DOCS_COLUMNS} are allowed"
        if path == pathlib.Path("docs/performance.md") and len(lines) > PERFORMANCE_LINES:
            yield f"{path}: {len(lines)} lines, at most {PERFORMANCE_LINES} are allowed"


def check_license(root):
    """Every source names its license within its first three lines."""
    for path in source_tree.files(root, LICENSED_SUFFIXES):
        head = source_tree.read(root, path).splitlines()[:3]
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in head):
            yield f"{path}: no SPDX-License-Identifier: Apache-2.0 in the first three lines"


CHECKS = {
    "format": check_format,
    "unfinished": check_unfinished,
    "words": check_words,
    "random": check_random,
    "memory": check_memory,
    "environment": check_environment,
    "headers": check_headers,
    "labels": check_labels,
    "readme": check_readme,
    "docs": check_docs,
    "license": check_license,
}


def main():
    root, names = sys.argv[1], sys.argv[2:] or list(CHECKS)
    problems = [f"{name}: {problem}" for name in names for problem in CHECKS[name](root)]
    print("\n".join(problems) if problems else "style: " + ", ".join(names))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
