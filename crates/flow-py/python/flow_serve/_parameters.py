"""Parameters of a method that have a class of pydantic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._annotations import annotation


def model_of(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The class of pydantic, of either version, that a method's `parameters` are annotated with; `None` if they have none."""
    found = annotation(function, "parameters")
    is_model = isinstance(found, type) and (hasattr(found, "model_fields") or hasattr(found, "__fields__"))
    return found if is_model else None
