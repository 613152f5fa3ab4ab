"""Proves what `flow migrate` says. Its argument is an empty folder."""
import contextlib
import io
import json
import sys
from pathlib import Path

from flow_serve import _migrate

FOLDER = Path(sys.argv[1]) / "project"
FOLDER.mkdir()
(FOLDER / ".venv").mkdir()
(FOLDER / ".venv" / "other.py").write_text("from jina import Gateway\n")

(FOLDER / "main.py").write_text(
    """from docarray import Document, DocumentArray, dataclass
from jina import Client, Flow, Gateway
import jina.hubble

f = Flow(port=1, prot=2, stateful=True).add(uses='executor.yml', replicaz=2)
f.mutate('x')
docs = DocumentArray(storage='sqlite')
docs.plot_embeddings()
docs.match(docs)
docs[0].buffer
Client(protocol='http', port=1)
Client(protocol='grpc', port=1)
f.add(uses='docker://a', quiet_error=True)
docs[0].load_uri_to_image_tensor()
docs.save_binary('docs.bin')
raise SystemExit('it must not run')
"""
)
(FOLDER / "plain.py").write_text("import os\nprint(os.environ.buffer)\n")
(FOLDER / "flow.yml").write_text("jtype: Flow\nexecutors:\n  - uses: echo\n    replica: 2\n")
(FOLDER / "good.yml").write_text("jtype: Flow\nexecutors:\n  - uses: echo\n")
(FOLDER / "broken.py").write_text("def (:\n")
(FOLDER / "other.yml").write_text("a: 1\n")


def said(*paths):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = _migrate.main([str(path) for path in paths])
    return code, out.getvalue().replace(f"{FOLDER}/", "").splitlines()


code, lines = said(FOLDER)
text = "\n".join(lines)
assert code == 1, text


def says(file, line, verdict, part):
    assert any(each.startswith(f"{file}:{line}: {verdict}: ") and part in each for each in lines), f"{file}:{line} {part}\n{text}"


says("main.py", 1, "works", "`docarray.Document`")
says("main.py", 1, "refused", "`docarray.dataclass`: describe documents")
says("main.py", 2, "refused", "`jina.Gateway`")
says("main.py", 3, "refused", "`jina.hubble`: Jina's hub is no more")
says("main.py", 5, "refused", "did you mean `port`?")
says("main.py", 5, "refused", "`stateful` is a key of Jina's that flow does not support yet")
says("main.py", 5, "refused", "did you mean `replicas`?")
says("main.py", 13, "changes", "quiet_error")
says("main.py", 6, "refused", "`.mutate()`: there is no GraphQL")
says("main.py", 7, "refused", "`storage` of a `DocumentArray`")
says("main.py", 8, "refused", "`DocumentArray.plot_embeddings()`")
says("main.py", 10, "changes", "write `blob`")
says("main.py", 11, "changes", "the client speaks gRPC")
says("main.py", 14, "refused", "`Document.load_uri_to_image_tensor()`: read the file with Pillow")
says("flow.yml", 4, "refused", "did you mean `replicas`?")
says("good.yml", 1, "works", "the flow file")
says("broken.py", 1, "refused", "not valid Python")
assert not any(each.startswith(("plain.py", "other.yml", ".venv", "main.py:9:", "main.py:12:", "main.py:15:")) for each in lines), text
assert lines[-1].endswith("refused"), text

code, lines = said(FOLDER / "good.yml")
assert (code, lines[-1]) == (0, "1 works, 0 changes, 0 refused")
assert said("nosuch")[0] == 2
print(json.dumps("fine"))
