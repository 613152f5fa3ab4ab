"""Jina's logger, on the standard library's."""

import logging
from typing import Any


class JinaLogger(logging.LoggerAdapter):  # type: ignore[type-arg]
    """A logger with the name of its context, and Jina's level for success."""

    def __init__(self, context: str = "jina", *_arguments: Any, **_options: Any) -> None:
        super().__init__(logging.getLogger(context), {})

    def success(self, message: str, *arguments: Any, **options: Any) -> None:
        self.info(message, *arguments, **options)

    def close(self) -> None:
        """Does nothing: the standard library closes its handlers itself."""
