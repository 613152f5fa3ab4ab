"""What discovery says about a method: the classes of its documents and of its parameters, as JSON schemas.

The classes are those of docarray, from 0.30 on, and of pydantic. A class of another kind is no schema: our own documents have
fixed attributes, so no method could get or return its fields.
"""

from __future__ import annotations

import inspect
import json
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
        parameters = model_of(function)
        typed = adapter if isinstance(adapter, SecondGeneration) else None
        self.input = None if typed is None else _described(typed.input, typed.pure)
        self.output = None if typed is None else _described(typed.output, typed.pure)
        self.parameters = _open(_described(parameters), parameters)
        self.is_for_one_document = "doc" in inspect.signature(function).parameters


def _described(cls: Any, pure: Callable[[Any], Any] | None = None) -> Class:
    if cls is None:
        return None
    try:
        schema = _schema(cls if pure is None else pure(cls))
        # The native module takes what JSON has: a default of infinity, for example, is an error here.
        return cls.__name__, json.loads(json.dumps(schema, allow_nan=False))
    except Exception as error:
        # A field of a type that has no schema. The method works without one.
        Logger("flow_serve").debug(f"the class `{cls.__name__}` cannot be described to clients: {error}")
        return None


def _schema(cls: Any) -> dict[str, Any]:
    """The JSON schema of a class of pydantic 1 or 2."""
    schema = cls.model_json_schema() if hasattr(cls, "model_json_schema") else cls.schema()
    return typing.cast("dict[str, Any]", schema)


def _open(described: Class, cls: Any) -> Class:
    """The schema of a class of parameters. Gateways refuse names that it does not have, unless it says that there may be others."""
    if described is not None and _has_other_names(cls):
        described[1]["additionalProperties"] = True
    return described


def _has_other_names(cls: Any) -> bool:
    """Whether a class of pydantic may take values by names that its schema does not have: aliases, or what a validator reads."""
    fields = (getattr(cls, "model_fields", None) or getattr(cls, "__fields__", {})).values()
    has_aliases = any(getattr(field, "alias", None) not in (None, getattr(field, "name", None)) for field in fields)
    has_aliases = has_aliases or any(getattr(field, "validation_alias", None) is not None for field in fields)
    decorators = getattr(cls, "__pydantic_decorators__", None)
    validators = getattr(decorators, "model_validators", None) or getattr(cls, "__pre_root_validators__", None)
    return has_aliases or bool(validators)
