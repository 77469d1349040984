# SPDX-License-Identifier: Apache-2.0
"""The project's source files, for the lint checks."""
import pathlib
import re

LAYERS = ["tools", "convnets", "trainer", "ps", "sparse", "io", "profiler"]
SKIPPED_FOLDERS = re.compile(r"^(build.*|\.git|data|runs|__pycache__|corpus)$")
CODE_SUFFIXES = {".h", ".cc"}

_IGNORED = re.compile(
    r'R"(?P<tag>\w*)\(.*?\)(?P=tag)"'  # raw strings
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n]){1,8}'"
    r"|//[^\n]*|/\*.*?\*/",
    re.S,
)


def files(root, suffixes=None):
    """Paths relative to root, sorted."""
    root = pathlib.Path(root)
    found = []
    for path in root.rglob("*"):
        relative = path.relative_to(root)
        if any(SKIPPED_FOLDERS.match(part) for part in relative.parts[:-1]) or not path.is_file():
            continue
        if suffixes is None or path.suffix in suffixes:
            found.append(relative)
    return sorted(found)


def code_files(root):
    """C++ files of the layers and of the tests."""
    return [path for path in files(root, CODE_SUFFIXES) if path.parts[0] in LAYERS + ["tests"]]


def read(root, path):
    return (pathlib.Path(root) / path).read_text(encoding="utf-8", errors="replace")


def code_only(text):
    """Text with comments and literals blanked, line numbers kept."""
    return _IGNORED.sub(lambda match: "\n" * match.group().count("\n") + " ", text)


def matches(root, path, pattern, text):
    """'path:line: found' for each match of pattern in text."""
    for match in re.finditer(pattern, text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{path}:{line}: {match.group().strip()}"
