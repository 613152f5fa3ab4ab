"""What a new user does with the wheel, in a virtual environment that has nothing but the wheel and NumPy.

    installed.py

Prints the version of the program, and how long the import takes, as JSON.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import flow_serve
from flow_serve import Client, Document, Executor, Flow, requests

FOLDER = os.path.dirname(sys.executable)
assert flow_serve.__file__.startswith(sys.prefix), flow_serve.__file__

# `pip install` has put the program beside the interpreter.
program = os.path.join(FOLDER, "flow")
version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]


class Upper(Executor):
    @requests
    def upper(self, docs, **_):
        for doc in docs:
            doc.text = doc.text.upper()


def seconds(code):
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begin


def median(code, rounds=15):
    return statistics.median(seconds(code) for _ in range(rounds))


if __name__ == "__main__":
    with Flow().add(uses=Upper) as flow:
        texts = [doc.text for doc in Client(port=flow.port).post("/", [Document(text="hello"), Document(text="world")])]
    assert texts == ["HELLO", "WORLD"], texts
    alone, with_numpy, whole = median("pass"), median("import numpy"), median("import flow_serve")
    print(json.dumps({
        "version": version,
        "import_ms": round((whole - alone) * 1000, 1),
        "numpy_import_ms": round((with_numpy - alone) * 1000, 1),
    }))
