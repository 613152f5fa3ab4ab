"""Flow files as Python reads and writes them: their values, and their content."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from flow_serve.exceptions import BadConfigSource, NotSupportedError

#: Texts that are a flow file themselves and not the path of one.
BEGINNINGS = ("jtype:", "!Flow", "!Deployment", "version:", "executors:", "with:", "{")


def read_config(source: Any, options: dict[str, Any]) -> tuple[dict[str, Any], Path | None]:
    """The content of a configuration, and its path if it is in a file."""
    from flow_serve import _native

    refused = {name for name, value in options.items() if value and name not in ("allow_py_modules", "substitute")}
    if refused:
        names = ", ".join(f"`{name}`" for name in sorted(refused))
        raise NotSupportedError(f"{names} of `load_config` is not supported; write it into the file, or change the flow after")
    if isinstance(source, Mapping):
        return plain(source), None
    text = str(source)
    path: Path | None = None
    if not (isinstance(source, str) and ("\n" in text or text.lstrip().startswith(BEGINNINGS))):
        path = Path(source).expanduser().resolve()
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise BadConfigSource(f"cannot read `{source}`: {error.strerror}") from error
    try:
        file = _native.yaml_to_json(text)
    except ValueError as error:
        raise BadConfigSource(f"`{path or 'the text'}` is not valid: {error}") from error
    if not isinstance(file, dict):
        raise BadConfigSource(f"`{path or text}` is no mapping")
    return file, path


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that have a value, as values of a flow file."""
    return {key: plain(value) for key, value in options.items() if value is not None}


def plain(value: Any) -> Any:
    """A value as a flow file can hold it."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise NotSupportedError(
        f"a `{type(value).__name__}` cannot be handed to another process; options are numbers, texts, lists and mappings"
    )


def names_of(needs: Any) -> Any:
    """The names of executors that are given as names or as objects."""
    if isinstance(needs, str):
        return needs
    if isinstance(needs, (list, tuple, set, frozenset)):
        return [names_of(each) for each in needs]
    return str(needs.name)


def listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]
