"""Jina's default logger."""

from jina.logging.logger import JinaLogger

default_logger = JinaLogger("JINA")
