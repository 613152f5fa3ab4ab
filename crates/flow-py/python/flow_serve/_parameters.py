"""Parameters of a method that have a class of pydantic."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any


def model_of(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The class of pydantic, of either version, that a method's `parameters` are annotated with; `None` if they have none."""
    annotation = getattr(function, "__annotations__", {}).get("parameters")
    if isinstance(annotation, str):
        # Only this annotation must be known: the others may exist for type checkers only.
        parameters_only = type("_", (), {"__annotations__": {"parameters": annotation}, "__module__": function.__module__})
        try:
            annotation = typing.get_type_hints(parameters_only).get("parameters")
        except (NameError, TypeError, SyntaxError):
            return None
    is_model = isinstance(annotation, type) and (hasattr(annotation, "model_fields") or hasattr(annotation, "__fields__"))
    return annotation if is_model else None
