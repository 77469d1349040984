# SPDX-License-Identifier: Apache-2.0
"""The progress line of long work."""
from __future__ import annotations

import sys
import time
from typing import Optional, TextIO


def _rewrites_lines(out: TextIO) -> bool:
    """A terminal or a notebook: a carriage return begins the line again."""
    return out.isatty() or type(out).__module__.startswith("ipykernel")


class Progress:
    """Called with (rows, mean loss) several times a second.

    In a terminal or a notebook the line is rewritten; elsewhere there is a new line every ten seconds. Work of less
    than a second shows nothing but its end.
    """

    def __init__(self, name: str, total: int, out: Optional[TextIO] = None) -> None:
        self.name, self.total = name, total
        self.out = sys.stderr if out is None else out
        self.start = time.monotonic()
        self.live = _rewrites_lines(self.out)
        self.next = self.start + (1 if self.live else 10)
        self.width = 0

    def __call__(self, rows: int, loss: float) -> None:
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + (0.25 if self.live else 10)
        left = (now - self.start) * (self.total - rows) / max(rows, 1)
        self._write(f"{self._rate(rows, now)}, loss {loss:.5f}, {left:.0f} s left")

    def finish(self, loss: float) -> None:
        now = time.monotonic()
        self._write(f"{self._rate(self.total, now)}, loss {loss:.5f}, {now - self.start:.2f} s")
        if self.live:
            self.out.write("\n")

    def _rate(self, rows: int, now: float) -> str:
        rate = rows / max(now - self.start, 1e-9)
        return f"{self.name}: {rows:,} of {self.total:,} rows, {rate:,.0f}/s"

    def _write(self, line: str) -> None:
        end = "" if self.live else "\n"
        begin = "\r" if self.live else ""
        self.out.write(begin + line.ljust(self.width if self.live else 0) + end)
        self.out.flush()
        self.width = len(line)
