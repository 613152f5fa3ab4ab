"""What `help`, `inspect.signature` and notebooks show of methods whose options are many.

Type checkers and editors read the types of `_typed_options.py`; a running interpreter knows only `**options`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def shows_options(function: Callable[..., Any], options: type) -> None:
    """Lists the options of a `TypedDict` in the signature of a function, in the place of its `**options`."""
    own = inspect.signature(function)
    named = [it for it in own.parameters.values() if it.kind is not inspect.Parameter.VAR_KEYWORD]
    listed = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_text(annotation))
        for name, annotation in _annotations(options).items()
        if name not in own.parameters
    ]
    setattr(function, "__signature__", own.replace(parameters=[*named, *listed]))


def _annotations(options: type) -> dict[str, Any]:
    """The annotations of a `TypedDict` and of those that it extends."""
    found: dict[str, Any] = getattr(options, "__annotations__", {})
    return found


def _text(annotation: Any) -> str:
    return str(getattr(annotation, "__forward_arg__", annotation))
