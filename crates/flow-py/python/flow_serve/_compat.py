"""Runs scripts in which `jina` and `docarray` mean this package: `flow python SCRIPT`."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from pathlib import Path

#: Folders of the packages that stand in for others. They are on the path only where `install` puts them there.
FOLDER = Path(__file__).parent
JINA = FOLDER / "jina_compat"
DOCARRAY = FOLDER / "docarray_compat"


def install() -> None:
    """Makes `import jina` import this package's classes, also in processes that this one starts.

    `docarray` does the same, unless the package docarray is installed: then its own documents are used, which clients
    take and give back.
    """
    folders = [str(JINA)]
    if importlib.util.find_spec("docarray") is None:
        folders.append(str(DOCARRAY))
    for folder in reversed(folders):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    existing = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*folders, *existing]))
    importlib.invalidate_caches()


def main(arguments: list[str]) -> None:
    """Runs a script, or with `-m` a module, with these arguments."""
    if not arguments or arguments == ["-m"]:
        sys.exit("flow python: no script is named; write `flow python main.py`")
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    script = Path(arguments[0])
    if not script.is_file():
        sys.exit(f"flow python: there is no script `{script}`")
    sys.argv = arguments
    sys.path.insert(0, str(script.resolve().parent))
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
