"""`flow migrate`: what changes if a project that uses Jina moves to flow.

Flow files are judged by `flow check`, so there is one table of options. Python files are read as syntax trees and are
not run.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flow_serve import DocumentArray, _native
from flow_serve._migrate_names import (
    ATTRIBUTES,
    CLIENT_OPTIONS,
    DOCARRAY_NAMES,
    DOCUMENT_ARRAY_METHODS,
    DOCUMENT_METHODS,
    JINA_NAMES,
    METHODS,
    MODULES,
)
from flow_serve._program import program
from flow_serve._yaml import to_yaml

WORKS = "works"
CHANGES = "changes"
REFUSED = "refused"

SKIPPED_FOLDERS = {".git", ".venv", "venv", "node_modules", "__pycache__", ".tox", "site-packages"}

#: A line of `flow check` about a problem, or of its warnings.
PROBLEM = re.compile(r"\s+(\d+):\d+\s{2,}(\S+)\s{2,}(.*)")

#: Options that name other files or executors, which `flow check` cannot find for an executor of a script.
NOT_CHECKED = ("uses", "needs", "name", "py_modules", "uses_before", "uses_after", "deployment", "method", "external", "host")


@dataclass(frozen=True, order=True)
class Finding:
    """What is said about a line of a file."""

    path: Path
    line: int
    verdict: str
    text: str


def main(arguments: list[str]) -> int:
    """Prints the findings about files and folders. Returns 1 if something has to be changed."""
    if not arguments:
        print("flow migrate: name the files or the folder of a project", file=sys.stderr)
        return 2
    missing = [path for path in arguments if not Path(path).exists()]
    if missing:
        print(f"flow migrate: there is no `{missing[0]}`", file=sys.stderr)
        return 2
    findings = sorted({finding for path in files(map(Path, arguments)) for finding in of_file(path)})
    for finding in findings:
        print(f"{finding.path}:{finding.line}: {finding.verdict}: {finding.text}")
    counts = {verdict: sum(it.verdict == verdict for it in findings) for verdict in (WORKS, CHANGES, REFUSED)}
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if counts[CHANGES] + counts[REFUSED] else 0


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files of Python and YAML among paths and below folders."""
    for path in paths:
        if path.is_file():
            yield path
            continue
        for below in sorted(path.rglob("*")):
            skipped = SKIPPED_FOLDERS.intersection(below.relative_to(path).parts)
            if below.suffix in (".py", ".yml", ".yaml") and below.is_file() and not skipped:
                yield below


def of_file(path: Path) -> list[Finding]:
    """The findings about a file. Files that have nothing to do with Jina have none."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return of_python(path, text) if path.suffix == ".py" else of_yaml(path, text)


def of_yaml(path: Path, text: str) -> list[Finding]:
    """The findings about a flow file or the configuration of an executor."""
    try:
        content = _native.yaml_to_json(text)
    except ValueError as error:
        return [Finding(path, 1, REFUSED, f"not valid YAML: {error}")] if "jtype" in text or "!Flow" in text else []
    if not isinstance(content, dict):
        return []
    is_flow = content.get("jtype") in ("Flow", "Deployment") or text.lstrip().startswith("!Flow")
    if not is_flow:
        is_executor = "jtype" in content and "py_modules" in text
        return [Finding(path, 1, WORKS, "the configuration of an executor in Python")] if is_executor else []
    if content.get("jtype") == "Deployment":
        options = content.get("with") or {}
        return [Finding(path, _line_of(text, key), verdict, said) for key, verdict, said in _checked(options, "executors")]
    problems = [Finding(path, line, verdict, said) for line, _, verdict, said in _check(path)]
    return problems or [Finding(path, 1, WORKS, "the flow file")]


def of_python(path: Path, text: str) -> list[Finding]:
    """The findings about a script or a module."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return [Finding(path, error.lineno or 1, REFUSED, f"not valid Python: {error.msg}")]
    module = _Module(path)
    module.visit(tree)
    return module.findings


class _Module(ast.NodeVisitor):
    """Walks through a module that may use Jina."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.findings: list[Finding] = []
        #: What names of the module stand for, such as `Flow` or `jina`.
        self.names: dict[str, str] = {}

    def say(self, node: ast.AST, verdict: str, text: str) -> None:
        self.findings.append(Finding(self.path, getattr(node, "lineno", 1), verdict, text))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.split(".")[0] in ("jina", "docarray"):
                self.names[alias.asname or alias.name.split(".")[0]] = alias.name
                self._module(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        root = module.split(".")[0]
        if node.level or root not in ("jina", "docarray"):
            return
        if "." in module and not self._module(node, module):
            return
        for alias in node.names:
            self.names[alias.asname or alias.name] = alias.name
            if "." not in module:
                self._name(node, root, alias.name)

    def _module(self, node: ast.AST, module: str) -> bool:
        verdict, text = MODULES.get(module, (REFUSED, "flow has no module in its place"))
        if verdict != WORKS or "." in module:
            self.say(node, verdict, f"`{module}`" + (f": {text}" if text else ""))
        return verdict == WORKS

    def _name(self, node: ast.AST, root: str, name: str) -> None:
        table = JINA_NAMES if root == "jina" else DOCARRAY_NAMES
        verdict, text = table.get(name, (REFUSED, "flow has nothing of this name"))
        self.say(node, verdict, f"`{root}.{name}`" + (f": {text}" if text else ""))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self._uses_jina():
            if isinstance(node.value, ast.Name) and self.names.get(node.value.id) in ("jina", "docarray"):
                self._name(node, self.names[node.value.id], node.attr)
            elif node.attr in ATTRIBUTES:
                verdict, text = ATTRIBUTES[node.attr]
                self.say(node, verdict, f"`.{node.attr}`: {text}")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if self._uses_jina():
            self._call(node)
        self.generic_visit(node)

    def _call(self, node: ast.Call) -> None:
        called = self.names.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if isinstance(node.func, ast.Attribute):
            called = node.func.attr
        options = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        if called in ("Flow", "AsyncFlow", "config_gateway"):
            self._options(node, options, "with")
        elif called == "Deployment" or (called == "add" and {"Flow", "AsyncFlow"} & set(self.names.values())):
            self._options(node, options, "executors")
        elif called == "Client":
            self._client(options)
        elif called == "Document":
            for name in options.keys() & {"buffer", "blob"}:
                verdict, text = ATTRIBUTES.get(name, (CHANGES, ""))
                self.say(options[name], verdict, f"`Document({name}=…)`: {text}")
        elif called == "DocumentArray" and "storage" in options:
            self.say(node, REFUSED, "`storage` of a `DocumentArray`: documents are kept in memory; the executor `vector-index` keeps them on disk")
        elif isinstance(node.func, ast.Attribute):
            self._method(node, node.func.attr)

    def _method(self, node: ast.Call, name: str) -> None:
        if name in METHODS:
            verdict, text = METHODS[name]
            self.say(node, verdict, f"`.{name}()`: {text}")
        elif name in DOCUMENT_ARRAY_METHODS and not hasattr(DocumentArray, name):
            self.say(node, REFUSED, f"`DocumentArray.{name}()`: {DOCUMENT_ARRAY_METHODS[name]}")
        elif name in DOCUMENT_METHODS:
            self.say(node, REFUSED, f"`Document.{name}()`: {DOCUMENT_METHODS[name]}")

    def _client(self, options: dict[str, ast.expr]) -> None:
        for name, value in options.items():
            if name not in CLIENT_OPTIONS:
                continue
            verdict, text = CLIENT_OPTIONS[name]
            literal = value.value if isinstance(value, ast.Constant) else None
            harmless = literal in (None, False) or (name == "protocol" and str(literal).lower() == "grpc")
            if not (isinstance(value, ast.Constant) and harmless):
                self.say(value, verdict, f"`Client({name}=…)`: {text}")

    def _options(self, node: ast.Call, options: dict[str, ast.expr], section: str) -> None:
        literals: dict[str, Any] = {}
        for name, value in options.items():
            try:
                literals[name] = ast.literal_eval(value)
            except (ValueError, TypeError, SyntaxError):
                continue
        for key, verdict, text in _checked(literals, section):
            self.say(options.get(key, node), verdict, text)

    def _uses_jina(self) -> bool:
        return bool(self.names)


def _checked(options: dict[str, Any], section: str) -> list[tuple[str, str, str]]:
    """What `flow check` says about options: the option, the verdict, and the text."""
    kept = {key: value for key, value in options.items() if key not in NOT_CHECKED and _is_plain(value)}
    if not kept:
        return []
    executor: dict[str, Any] = {"name": "executor", "uses": "echo"}
    kept.pop("uses_with", None)
    flow: dict[str, Any] = {"jtype": "Flow"}
    if section == "executors":
        flow["executors"] = [{**executor, **kept}]
    else:
        flow.update({"with": {key: value for key, value in kept.items() if key != "asyncio"}, "executors": [executor]})
    with tempfile.TemporaryDirectory(prefix="flow-migrate-") as folder:
        file = Path(folder) / "flow.yml"
        file.write_text(to_yaml(flow), encoding="utf-8")
        found = _check(file)
    return [(path.rpartition(".")[2], verdict, said) for _, path, verdict, said in found]


def _check(file: Path) -> list[tuple[int, str, str, str]]:
    """Lines, paths, verdicts and texts of what `flow check` says about a flow file."""
    command = [program(), "check", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    found = []
    for line in done.stderr.splitlines():
        match = PROBLEM.fullmatch(line)
        if match:
            number, path, said = match.groups()
            is_change = "accepted without effect" in said or "no effect" in said
            found.append((int(number), path, CHANGES if is_change else REFUSED, f"`{path}`: {said}"))
    if done.returncode != 0 and not found:
        found.append((1, "", REFUSED, done.stderr.strip()))
    return found


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, (str, int, float, bool))


def _line_of(text: str, key: str) -> int:
    lines = (number for number, line in enumerate(text.splitlines(), 1) if line.strip().startswith(f"{key}:"))
    return next(lines, 1)
