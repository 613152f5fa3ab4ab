"""Jina's executors."""

from flow_serve import Executor

BaseExecutor = Executor

__all__ = ["BaseExecutor", "Executor"]
