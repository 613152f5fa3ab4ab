"""Serve machine-learning pipelines: flows, clients and executors in Python on a runtime in Rust."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import _array, _array_files
from ._native import Document, DocumentArray, NamedScore

_array.attach()
_array_files.attach()

if TYPE_CHECKING:
    from ._client import AsyncClient as AsyncClient
    from ._client import Client as Client
    from ._deployment import Deployment as Deployment
    from ._executor import Executor as Executor
    from ._executor import dynamic_batching as dynamic_batching
    from ._executor import monitor as monitor
    from ._executor import requests as requests
    from ._flow import AsyncFlow as AsyncFlow
    from ._flow import Flow as Flow
    from ._response import Response as Response
    from ._sentence_encoder import LangChainEmbeddings as LangChainEmbeddings
    from ._sentence_encoder import SentenceEncoder as SentenceEncoder
    from ._sentence_encoder import llama_index_embedding as llama_index_embedding

#: Modules that are imported when one of their names is first used.
_LAZY = {
    "AsyncClient": "_client",
    "AsyncFlow": "_flow",
    "Client": "_client",
    "Deployment": "_deployment",
    "Executor": "_executor",
    "Flow": "_flow",
    "LangChainEmbeddings": "_sentence_encoder",
    "Response": "_response",
    "SentenceEncoder": "_sentence_encoder",
    "dynamic_batching": "_executor",
    "llama_index_embedding": "_sentence_encoder",
    "monitor": "_executor",
    "requests": "_executor",
}

__all__ = [
    "AsyncClient",
    "AsyncFlow",
    "Client",
    "Deployment",
    "Document",
    "DocumentArray",
    "Executor",
    "Flow",
    "LangChainEmbeddings",
    "NamedScore",
    "Response",
    "SentenceEncoder",
    "dynamic_batching",
    "llama_index_embedding",
    "monitor",
    "requests",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"`flow_serve` has no `{name}`")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
