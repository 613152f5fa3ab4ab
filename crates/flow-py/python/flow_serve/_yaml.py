"""Flow files as text: YAML that people read, written without another package."""

from __future__ import annotations

import json
import math
import re
from typing import Any

#: Texts that need no quotes: they cannot be read as numbers, booleans, references or syntax.
PLAIN = re.compile(r"[A-Za-z_/.][A-Za-z0-9_/.:+@=-]*")
WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n", ".inf", ".nan")


def to_yaml(value: Any) -> str:
    """The value as a YAML document in block style."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any) -> list[str]:
    if isinstance(value, dict) and value:
        return [line for key, item in value.items() for line in _entry(f"{_scalar(key)}:", item)]
    if isinstance(value, list) and value:
        return [line for item in value for line in _item(item)]
    return [_scalar(value)]


def _entry(key: str, value: Any) -> list[str]:
    if isinstance(value, (dict, list)) and value:
        return [key, *(f"  {line}" for line in _lines(value))]
    return [f"{key} {_scalar(value)}"]


def _item(value: Any) -> list[str]:
    first, *rest = _lines(value)
    return [f"- {first}", *(f"  {line}" for line in rest)]


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        plain = PLAIN.fullmatch(value) and value.lower() not in WORDS and not value.endswith(":")
        return value if plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"a flow file has no number {value}")
    return json.dumps(value, ensure_ascii=False)
