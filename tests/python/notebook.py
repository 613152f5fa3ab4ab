"""Proves that a notebook runs the package. Its argument is an empty folder, in which the notebook is.

The kernel is Jupyter's own, whose cells run inside an event loop.
"""

import json
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(sys.argv[1])

#: The cells by name.
CELLS = {
    "file": """\
%%writefile executor.py
from flow_serve import Executor, requests


class Upper(Executor):
    @requests(on="/upper")
    def upper(self, docs, **kwargs):
        for doc in docs:
            doc.text = doc.text.upper()
""",
    "flow": """\
from executor import Upper
from flow_serve import Deployment, Document, DocumentArray, Flow, Executor

flow = Flow().add(name="first", uses=Upper).add(name="second", uses="echo")
flow
""",
    "deployment": 'Deployment(name="alone", uses="echo")',
    "loop": """\
import asyncio

print(asyncio.get_running_loop().is_running())
""",
    "start": "_ = flow.start()",
    "post": """\
docs = flow.post("/upper", DocumentArray(Document(text=text) for text in ("a", "b")))
docs
""",
    "texts": "print(docs.texts)",
    "async": """\
from flow_serve import Client

async for found in Client(port=flow.port, asyncio=True).post("/upper", Document(text="c")):
    print(found.texts)
""",
    "close": "flow.close()\nprint(flow.is_running)",
    "typed": """\
class Typed(Executor):
    pass


try:
    Flow().add(uses=Typed)
except Exception as error:
    print(error)
""",
}

notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS.values()])
client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}})
client.execute()
outputs = {name: cell["outputs"] for name, cell in zip(CELLS, notebook.cells)}


def printed(name):
    return "".join(each["text"] for each in outputs[name] if each.get("name") == "stdout").strip()


def shown(name):
    """The rich output of a cell."""
    [data] = [each["data"] for each in outputs[name] if each["output_type"] == "execute_result"]
    return data["text/html"]


assert (FOLDER / "executor.py").exists()
for name, parts in {"flow": ("first", "second"), "deployment": ("alone",)}.items():
    picture = shown(name)
    assert "<svg" in picture and all(part in picture for part in parts), picture
assert printed("loop") == "True"
assert "ready to serve" in printed("start"), printed("start")
assert "2 of 2" in shown("post") and shown("post").startswith("<pre>"), shown("post")
assert printed("texts") == "['A', 'B']", printed("texts")
assert printed("async") == "['C']", printed("async")
assert printed("close") == "False", printed("close")
assert "is not in a file" in printed("typed"), printed("typed")
print(json.dumps("fine"))
