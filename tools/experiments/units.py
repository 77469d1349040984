# SPDX-License-Identifier: Apache-2.0
"""Numbers with units, in the form that the programs print. MB is 10^6 bytes, Mbit/s 10^6 bits per second."""
import re

SCALE = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


def bytes_from(text):
    """'6.69 MB' -> 6690000.0"""
    number, unit = re.fullmatch(r"\s*([\d.,]+)\s*([kMGT]?B)\s*", text).groups()
    return float(number.replace(",", "")) * SCALE[unit]


def bytes_text(count):
    for unit in ("TB", "GB", "MB", "kB"):
        if abs(count) >= SCALE[unit]:
            return f"{number(count / SCALE[unit])} {unit}"
    return f"{count:.0f} B"


def number(value):
    """Three significant digits, and commas in large numbers."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    if abs(value) >= 1:
        return f"{value:.2f}"
    if value == 0:
        return "0"
    return f"{value:.3g}" if abs(value) < 0.01 else f"{value:.3f}"


def percent(share, digits=2):
    return "–" if share is None else f"{share * 100:.{digits}f} %"


def seconds(value):
    if value is None:
        return "–"
    if value >= 120:
        return f"{value // 60:.0f} min {value % 60:.0f} s"
    if value >= 0.1:
        return f"{number(value)} s"
    return f"{number(value * 1e3)} ms" if value >= 1e-4 else f"{number(value * 1e6)} µs"
