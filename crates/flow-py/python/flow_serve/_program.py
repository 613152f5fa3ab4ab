"""Finds the program `flow`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from flow_serve.exceptions import ProgramNotFound

#: Names the program, if it is not where it is looked for.
VARIABLE = "FLOW_BIN"
NAME = "flow.exe" if sys.platform == "win32" else "flow"


def program() -> str:
    """The path of the program: `FLOW_BIN`, or beside the interpreter, where pip puts it, or on `PATH`."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    beside = Path(sys.executable).parent / NAME
    if beside.is_file():
        return str(beside)
    on_path = shutil.which(NAME)
    if on_path is None:
        raise ProgramNotFound(
            f"there is no program `flow` beside `{sys.executable}` and none on PATH; install the package flow-serve "
            f"with pip, or name the program in the environment variable {VARIABLE}"
        )
    return on_path


def output_of(arguments: Sequence[str | Path]) -> str:
    """What the program prints. An error carries what it says about its cause."""
    command = [program(), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"`{' '.join(command)}` ended with {done.returncode}")
    return done.stdout
