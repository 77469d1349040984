#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of the built package. Usage: build_wheel.py PACKAGE_DIR METADATA OUT_DIR

A wheel is a zip file of the package with a folder of metadata (PEP 427). The same files make the same bytes. Prints
the wheel's path.
"""
import base64
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

SOURCES = (".py", ".pyi", ".typed", ".so")


def stripped(path):
    """The bytes of a module without debug information and local symbols."""
    if shutil.which("strip") is None:
        return path.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / path.name
        subprocess.run(["strip", "--strip-unneeded", "-o", out, path], check=True)
        return out.read_bytes()


def content_of(package):
    """{name in the wheel: bytes}"""
    files = {}
    for path in sorted(package.iterdir()):
        if path.suffix in SOURCES or path.name == "py.typed":
            data = stripped(path) if path.suffix == ".so" else path.read_bytes()
            files[f"{package.name}/{path.name}"] = data
    return files


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}"


def main():
    package, metadata, out = map(pathlib.Path, sys.argv[1:4])
    text = metadata.read_text(encoding="utf-8")
    version = re.search(r"^Version: (.+)$", text, re.M)[1]
    files = content_of(package)
    if not any(name.endswith(".so") for name in files):
        sys.exit(f"build_wheel.py: {package}: expected a compiled module, found none: build it first")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    tag = f"{python}-{python}-{platform}"
    info = f"millrace-{version}.dist-info"
    files[f"{info}/METADATA"] = text.encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: millrace\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    record = "\n".join([record_line(name, data) for name, data in files.items()] + [f"{info}/RECORD,,\n"])
    files[f"{info}/RECORD"] = record.encode()
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"millrace-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            archive.writestr(entry, data)
    print(wheel)


main()
