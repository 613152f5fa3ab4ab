"""What discovery says about a method: the classes of its documents and of its parameters, as JSON schemas.

The classes are those of docarray, from 0.30 on, and of pydantic. A class of another kind is no schema: our own documents have
fixed attributes, so no method could get or return its fields.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, Optional

from ._executor_docarray import Generation, SecondGeneration
from ._logger import Logger
from ._parameters import model_of

#: The name of a class, and its schema.
Class = Optional[tuple[str, dict[str, Any]]]


class MethodSchema:
    """The classes of a method, as the native module reads them."""

    __slots__ = ("input", "is_for_one_document", "output", "parameters")

    def __init__(self, function: Callable[..., Any], adapter: Generation | None) -> None:
        typed = adapter if isinstance(adapter, SecondGeneration) else None
        self.input = None if typed is None else _described(typed.input, typed.pure)
        self.output = None if typed is None else _described(typed.output, typed.pure)
        self.parameters = _described(model_of(function))
        self.is_for_one_document = "doc" in inspect.signature(function).parameters


def _described(cls: Any, pure: Callable[[Any], Any] | None = None) -> Class:
    if cls is None:
        return None
    try:
        return cls.__name__, _schema(cls if pure is None else pure(cls))
    except Exception as error:
        # A field of a type that has no schema. The method works without one.
        Logger("flow_serve").debug(f"the class `{cls.__name__}` cannot be described to clients: {error}")
        return None


def _schema(cls: Any) -> dict[str, Any]:
    """The JSON schema of a class of pydantic 1 or 2."""
    schema = cls.model_json_schema() if hasattr(cls, "model_json_schema") else cls.schema()
    return typing.cast("dict[str, Any]", schema)
