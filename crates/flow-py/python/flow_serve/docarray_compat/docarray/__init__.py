"""DocArray 0.21's names for the classes of flow_serve. `flow python` puts this package in the place of `docarray`."""

from __future__ import annotations

from typing import Any

from flow_serve import Document, DocumentArray

#: The version of DocArray whose names these are.
__version__ = "0.21.1"

__all__ = ["Document", "DocumentArray"]

#: Names of later versions, which describe documents by classes.
OF_V2 = ("BaseDoc", "DocList", "DocVec")


def __getattr__(name: str) -> Any:
    if name in OF_V2:
        raise AttributeError(f"`docarray.{name}` belongs to DocArray 0.30 and later; install `docarray` to use it")
    raise AttributeError(f"`docarray.{name}` is not one of the names of DocArray 0.21 that `flow python` knows")
