"""Annotations of functions, also where they are texts, as with `from __future__ import annotations`."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any


#: An annotation that is known to type checkers only.
UNKNOWN: Any = object()


def annotation(function: Callable[..., Any], name: str) -> Any:
    """The annotation of a parameter, or of `return`; `None` if there is none, and `UNKNOWN` if it is a text that means nothing here."""
    found = getattr(function, "__annotations__", {}).get(name)
    if not isinstance(found, str):
        return found
    # Only this annotation must be known: the others may exist for type checkers only.
    one_only = type("_", (), {"__annotations__": {name: found}, "__module__": function.__module__})
    try:
        return typing.get_type_hints(one_only).get(name)
    except Exception:  # It runs code of the author, such as `DocList[…]`.
        return UNKNOWN
