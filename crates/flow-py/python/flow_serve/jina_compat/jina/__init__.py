"""Jina's names for the classes of flow_serve. `flow python` puts this package in the place of `jina`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import flow_serve

if TYPE_CHECKING:
    from flow_serve import (
        AsyncFlow,
        Client,
        Deployment,
        Document,
        DocumentArray,
        Executor,
        Flow,
        dynamic_batching,
        monitor,
        requests,
    )

#: The version of Jina whose names these are.
__version__ = "3.27.20"

#: Names that both packages have. They are imported when they are first used.
__all__ = [
    "AsyncFlow",
    "Client",
    "Deployment",
    "Document",
    "DocumentArray",
    "Executor",
    "Flow",
    "dynamic_batching",
    "monitor",
    "requests",
]

#: Names of Jina that have no counterpart, and what to do instead.
ABSENT = {
    "Gateway": "gateways of your own need Jina's runtime; `flow migrate` says what the gateway of flow does itself",
    "DocumentArrayMemmap": "use a `DocumentArray`; it keeps documents in the form in which they arrived",
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        value = getattr(flow_serve, name)
        globals()[name] = value
        return value
    reason = ABSENT.get(name, "it is not one of the names of Jina that `flow python` knows; `flow migrate` lists them")
    raise AttributeError(f"`jina.{name}` is not there: {reason}")
