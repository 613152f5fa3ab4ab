"""The progress of a post, on the terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

#: Seconds between two pictures on a terminal.
INTERVAL = 0.1
WIDTH = 40


class ProgressBar:
    """Counts requests. On a terminal it is drawn while it grows; elsewhere only the last line is written."""

    def __init__(self, total: float | None, enabled: bool, out: TextIO | None = None) -> None:
        self._total = total
        self._enabled = enabled
        self._out = out if out is not None else sys.stdout
        self._is_terminal = enabled and self._out.isatty()
        self._steps = 0
        self._started = time.monotonic()
        self._drawn = 0.0

    def __enter__(self) -> ProgressBar:
        self._started = time.monotonic()
        self._draw("Working...")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._enabled and kind is None:
            seconds = time.monotonic() - self._started
            done = f"{self._steps} steps done in {_words(seconds)}"
            self._write(f"{self._line('DONE', full=True)} {done}\n")
        elif self._is_terminal:
            self._write("\n")

    def update(self) -> None:
        """Counts a request."""
        self._steps += 1
        if self._is_terminal and time.monotonic() - self._drawn >= INTERVAL:
            self._draw("Working...")

    def _draw(self, word: str) -> None:
        if self._is_terminal:
            self._drawn = time.monotonic()
            self._write(self._line(word))

    def _line(self, word: str, full: bool = False) -> str:
        seconds = max(time.monotonic() - self._started, 1e-9)
        share = 1.0 if full else self._share()
        bar = ("━" * round(share * WIDTH)).ljust(WIDTH, "─" if self._total else " ")
        clock = f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"
        return f"{word:>10} {bar} {clock} {self._steps / seconds:.1f} step/s"

    def _share(self) -> float:
        return min(1.0, self._steps / self._total) if self._total else 0.0

    def _write(self, text: str) -> None:
        self._out.write(f"\r\x1b[K{text}" if self._is_terminal else text)
        self._out.flush()


def _words(seconds: float) -> str:
    return f"{seconds * 1000:.0f} milliseconds" if seconds < 1 else f"{seconds:.0f} seconds"
