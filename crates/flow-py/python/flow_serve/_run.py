"""The process of an executor: `python -m flow_serve._run --uses FILE_OR_CONFIG …`, which `flow` starts."""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import inspect
import logging
import os
import sys
import traceback
from types import ModuleType
from typing import Any, NoReturn

from . import _compat, _native


def main() -> None:
    """Finds the executor that the arguments name, and serves it until a signal ends the process."""
    arguments = _native.parse_arguments(sys.argv[1:])
    # For a process that ends before it serves; `serve` does it itself.
    atexit.register(_native.flush_log)
    if arguments.has_launcher:
        # The launcher reads events on standard output.
        sys.stdout = sys.stderr
    _compat.install()
    # Imported now, because it takes a while that reading arguments need not wait for.
    from ._definition import Definition
    from ._executor import Executor
    from ._logger import LastResort

    logging.lastResort = LastResort(logging.WARNING)
    try:
        cls, config = find(arguments.uses, Executor)
        definition = Definition(cls, arguments, config)
    except SystemExit:
        raise
    except BaseException as error:
        _fail(arguments, error)
    _native.serve(arguments, definition)


def find(uses: str, base: type) -> tuple[type, dict[str, Any]]:
    """The class that `uses` names, and what its config says."""
    sys.path.insert(0, os.getcwd())
    path, _, cls = uses.partition(":") if not os.path.exists(uses) else (uses, "", "")
    if os.path.isdir(path):
        path = os.path.join(path, "config.yml")
    if path.endswith((".yml", ".yaml")):
        return _of_config(path, base)
    empty: dict[str, Any] = {"jtype": "", "py_modules": [], "workspace": None, "with": {}, "metas": {}, "requests": {}, "dynamic_batching": {}}
    if path.endswith(".py"):
        module = _import_file(os.path.abspath(path))
        return (_named(cls, [module], path, base) if cls else _only(module, path, base)), empty
    module_name, _, name = (path, ":", cls) if cls else path.rpartition(".")
    if not module_name:
        raise ValueError(
            f"`{uses}` is no executor in Python; expected a Python file, FILE:CLASS, MODULE:CLASS or a `config.yml`"
        )
    return _named(name, [importlib.import_module(module_name)], module_name, base), empty


def _of_config(path: str, base: type) -> tuple[type, dict[str, Any]]:
    config = _native.read_config(path)
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    modules = [_import(name, folder) for name in config["py_modules"]]
    if not config["jtype"]:
        raise ValueError(f"`{path}` names no class; add `jtype: MyExecutor`")
    module, _, name = config["jtype"].rpartition(".")
    if module:
        modules.append(importlib.import_module(module))
    return _named(name, modules, path, base), config


def _import(name: str, folder: str) -> ModuleType:
    """A module that a config names: a file, a folder with an `__init__.py`, or the name of a module."""
    path = os.path.join(folder, name)
    if os.path.isdir(path):
        path = os.path.join(path, "__init__.py")
    if os.path.isfile(path):
        return _import_file(path)
    if name.endswith(".py"):
        raise FileNotFoundError(f"there is no `{path}`, which `py_modules` names")
    return importlib.import_module(name)


def _import_file(path: str) -> ModuleType:
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no `{path}`")
    folder, name = os.path.split(path)
    is_package = name == "__init__.py"
    if is_package:
        folder, name = os.path.split(folder)
    name = os.path.splitext(name)[0]
    if folder not in sys.path:
        sys.path.insert(0, folder)
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == path:
        return sys.modules[name]
    places = [os.path.dirname(path)] if is_package else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=places)
    if spec is None or spec.loader is None:
        raise ImportError(f"`{path}` is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _named(name: str, modules: list[ModuleType], where: str, base: type) -> type:
    """The class of this name, in the modules or in what they have imported."""
    for module in [*modules, *list(sys.modules.values())]:
        found = getattr(module, "__dict__", {}).get(name)
        if isinstance(found, type) and issubclass(found, base):
            return found
    known = sorted({cls.__name__ for module in modules for cls in _classes(module, base)})
    listed = f"; it has {', '.join(f'`{cls}`' for cls in known)}" if known else ""
    raise LookupError(f"`{where}` has no executor class `{name}`{listed}")


def _only(module: ModuleType, path: str, base: type) -> type:
    """The executor class of a file that has only one."""
    own = [cls for cls in _classes(module, base) if cls.__module__ == module.__name__]
    # A class that another one extends is there for that.
    leaves = [cls for cls in own if not any(other is not cls and issubclass(other, cls) for other in own)]
    if len(leaves) == 1:
        return leaves[0]
    if not leaves:
        raise LookupError(f"`{path}` has no class that extends `Executor`")
    names = ", ".join(f"`{cls.__name__}`" for cls in leaves)
    raise LookupError(f"`{path}` has several executors, {names}; name one as `{path}:{leaves[0].__name__}`")


def _classes(module: ModuleType, base: type) -> list[type]:
    return [it for it in vars(module).values() if inspect.isclass(it) and issubclass(it, base) and it is not base]


def _fail(arguments: _native.ExecutorArguments, error: BaseException) -> NoReturn:
    """Ends the process with the reason, in the words of the author's own code where that failed."""
    _native.log(40, "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip())
    reason = f"{type(error).__name__}: {error}{_remedy(arguments.uses, error)}"
    print(f"flow: executor `{arguments.name}` cannot be loaded: {reason}", file=sys.stderr)
    sys.exit(1)


def _remedy(uses: str, error: BaseException) -> str:
    """What installs a module that is missing."""
    requirements = os.path.join(os.path.dirname(uses), "requirements.txt")
    if not isinstance(error, ModuleNotFoundError) or not os.path.exists(requirements):
        return ""
    return f"; `flow up --install` installs what `{requirements}` lists"


if __name__ == "__main__":
    main()
