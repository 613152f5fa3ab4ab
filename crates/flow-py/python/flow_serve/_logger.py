"""The log of an executor's process."""

from __future__ import annotations

import contextvars
import logging
import traceback
from collections.abc import Sequence
from typing import Any, Optional

#: The requests that a coroutine works on, which runs on another thread than its call.
REQUESTS: contextvars.ContextVar[Optional[Sequence[str]]] = contextvars.ContextVar("requests", default=None)


def write_log(level: int, text: str) -> None:
    """Writes to the log of the process."""
    from ._native import log

    log(max(0, min(int(level), 255)), text, REQUESTS.get())


class LastResort(logging.Handler):
    """Writes what loggers of Python log to the log of the process, unless the executor's code chose other handlers."""

    def emit(self, record: logging.LogRecord) -> None:
        write_log(record.levelno, f"{record.name}: {self.format(record)}")


class Logger:
    """The log of the process, with the methods of Python's loggers and Jina's `success`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def log(self, level: int, message: object, *args: object, exc_info: Any = False, **_: Any) -> None:
        text = str(message) % args if args else str(message)
        if exc_info:
            text += "\n" + traceback.format_exc().rstrip()
        write_log(level, f"{self.name}: {text}")

    def debug(self, message: object, *args: object, **kwargs: Any) -> None:
        self.log(10, message, *args, **kwargs)

    def info(self, message: object, *args: object, **kwargs: Any) -> None:
        self.log(20, message, *args, **kwargs)

    success = info

    def warning(self, message: object, *args: object, **kwargs: Any) -> None:
        self.log(30, message, *args, **kwargs)

    warn = warning

    def error(self, message: object, *args: object, **kwargs: Any) -> None:
        self.log(40, message, *args, **kwargs)

    critical = error

    def exception(self, message: object, *args: object, **kwargs: Any) -> None:
        self.log(40, message, *args, exc_info=True, **kwargs)
