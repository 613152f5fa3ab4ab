"""Executors as objects in this process, from their files: `Executor.load_config`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ._run import find
from .exceptions import BadConfigSource, NotSupportedError

#: Options of Jina's `load_config` that change nothing here.
WITHOUT_EFFECT = ("allow_py_modules", "substitute")


def load(
    base: type,
    source: Any,
    uses_with: Mapping[str, Any] | None,
    uses_metas: Mapping[str, Any] | None,
    uses_requests: Mapping[str, str] | None,
    uses_dynamic_batching: Mapping[str, Any] | None,
    runtime_args: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> Any:
    """Makes the object of the class that a file names, with the options of the file and these."""
    refused = [name for name, value in options.items() if value and name not in WITHOUT_EFFECT]
    if refused:
        raise NotSupportedError(f"`{refused[0]}` of `load_config` is not supported; write it into the file")
    if not isinstance(source, (str, os.PathLike)) or "\n" in os.fspath(source):
        raise NotSupportedError("`load_config` of an executor takes the path of a `config.yml` or of a Python file")
    path = os.fspath(source)
    if not os.path.exists(path.partition(":")[0]):
        raise BadConfigSource(f"cannot read `{path}`: there is no such file")
    cls, config = find(path, base)
    return cls(
        **{**config["with"], **(uses_with or {})},
        metas={**config["metas"], **(uses_metas or {})},
        requests={**config["requests"], **(uses_requests or {})},
        dynamic_batching={**config["dynamic_batching"], **(uses_dynamic_batching or {})},
        runtime_args={"workspace": config["workspace"], **(runtime_args or {})},
    )
