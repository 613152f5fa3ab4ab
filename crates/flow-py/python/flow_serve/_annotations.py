"""Annotations of functions, also where they are texts, as with `from __future__ import annotations`."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any


def annotation(function: Callable[..., Any], name: str) -> Any:
    """The annotation of a parameter, or of `return`; `None` if there is none, or if it is a text that means nothing here."""
    found = getattr(function, "__annotations__", {}).get(name)
    if not isinstance(found, str):
        return found
    # Only this annotation must be known: the others may exist for type checkers only.
    one_only = type("_", (), {"__annotations__": {name: found}, "__module__": function.__module__})
    try:
        return typing.get_type_hints(one_only).get(name)
    except (AttributeError, NameError, TypeError, SyntaxError):
        return None
