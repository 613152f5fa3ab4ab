"""What an executor runs, as a flow file names it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from flow_serve.exceptions import NotSupportedError

#: Options of an executor whose values are paths, relative to the folder of the script.
PATHS = ("workspace", "py_modules", "extra_search_paths", "ssl_certfile", "ssl_keyfile", "volumes")

FILES = (".yml", ".yaml", ".py")


def described(uses: Any, base: Path) -> dict[str, Any]:
    """The options that name an executor: of a class of Python, its name and its file."""
    if isinstance(uses, type):
        return _of_class(uses)
    if isinstance(uses, str):
        return {"uses": _path(uses, base)}
    return {"uses": uses}


def _of_class(of: type) -> dict[str, Any]:
    if of.__module__.partition(".")[0] == "flow_serve" and of.__name__ in ("Executor", "BaseExecutor"):
        return {"uses": "BaseExecutor"}
    if "." in of.__qualname__:
        raise NotSupportedError(
            f"`{of.__qualname__}` is defined inside another class or a function, where the executor's own process cannot "
            "find it; define it at the top of its file"
        )
    module = sys.modules.get(of.__module__)
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file():
        raise NotSupportedError(
            f"`{of.__name__}` is not in a file, so the executor's own process cannot load it; write it to a file such as "
            "`executor.py`, and import it, or name the file: `uses='executor.py'`"
        )
    if "." in of.__module__ or Path(file).name == "__init__.py":
        return {"uses": f"{of.__module__}:{of.__name__}"}
    return {"uses": f"{Path(file).resolve()}:{of.__name__}"}


def absolute(options: dict[str, Any], base: Path) -> dict[str, Any]:
    """The options with absolute paths. A flow file that Python writes is in another folder than its script."""
    changed = dict(options)
    for key in PATHS:
        value = changed.get(key)
        if isinstance(value, str):
            changed[key] = _below(value, base)
        elif isinstance(value, list):
            changed[key] = [_below(each, base) if isinstance(each, str) else each for each in value]
    for key in ("uses", "uses_before", "uses_after"):
        if isinstance(changed.get(key), str):
            changed[key] = _path(changed[key], base)
    return changed


def _path(uses: str, base: Path) -> str:
    """A path is made absolute; the name of a built-in executor, a class or an image stays."""
    path, colon, name = uses.rpartition(":") if ".py:" in uses else (uses, "", "")
    is_path = "://" not in path and ("/" in path or path.endswith(FILES))
    return f"{(base / Path(path).expanduser()).resolve()}{colon}{name}" if is_path else uses


def _below(path: str, base: Path) -> str:
    is_relative = not path.startswith(("~", "/", "$"))
    return str(base / path) if is_relative else path
