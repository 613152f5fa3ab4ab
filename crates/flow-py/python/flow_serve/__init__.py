"""Serve machine-learning pipelines: flows, clients and executors in Python on a runtime in Rust."""

from ._native import Document, DocumentArray, NamedScore

__all__ = ["Document", "DocumentArray", "NamedScore"]
