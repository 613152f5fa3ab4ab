"""Writes `docs/src/python-reference.md`, the book's page on the names of the package, from its sources and their documentation.

    python crates/flow-py/reference.py [--check]

With `--check` it writes nothing, and fails if the page is not what it would write. It imports nothing of the package. What is
written in Rust has its signatures in `_native.pyi`, and its documentation in the sources in Rust.
"""

import ast
import re
import sys
from pathlib import Path

CRATE = Path(__file__).parent
PACKAGE = CRATE / "python/flow_serve"
PAGE = CRATE.parent.parent / "docs/src/python-reference.md"

#: The sections of the page, and the names that each has.
SECTIONS = {
    "Flows": ("Flow", "AsyncFlow", "Deployment"),
    "Clients": ("Client", "AsyncClient", "Response"),
    "Executors": ("Executor", "requests", "dynamic_batching", "monitor"),
    "Documents": ("Document", "DocumentArray", "NamedScore"),
    "Sentence embeddings": ("SentenceEncoder", "LangChainEmbeddings", "llama_index_embedding"),
}

#: Classes in Rust: where their methods are, and the name of the type there.
IN_RUST = {
    "Document": (("document/document_class.rs", "PyDocument"), ("document/objects.rs", "PyDocument")),
    "DocumentArray": (("document/array_class.rs", "PyDocumentArray"), ("document/objects.rs", "PyDocumentArray")),
    "NamedScore": (("document/scores.rs", "NamedScore"),),
}

#: Methods of the classes in Rust that are written in Python: the names of their functions, where these differ.
IN_PYTHON = {
    ("DocumentArray", "map"): "map_",
    ("DocumentArray", "load_csv"): "from_csv",
    ("DocumentArray", "from_dict"): "from_list",
    ("DocumentArray", "from_protobuf"): "array_from_protobuf",
    ("Document", "from_protobuf"): "document_from_protobuf",
    ("Document", "to_protobuf"): "document_to_protobuf",
    ("Document", "match"): "document_match",
    ("Document", "summary"): "document_summary",
}

HEADER = """# Python reference

<!-- Generated from the sources of the package. To generate it again: python crates/flow-py/reference.py -->

Every public name of the package `flow_serve`. [Python](python.md) and [Executors in Python](executors-python.md) are the introductions.

`**options` of flows, executors and the gateway are the keys of [flow files](flow-file-reference.md), with the same values.
"""

#: Classes whose objects are made by the package only.
NOT_MADE = ("Response",)

#: The documentation of methods of Jina that only raise an error, which says what to do instead. The page leaves them out.
REFUSED = "Is not supported."

#: Methods with two underscores that are worth a line.
SPECIAL = ("__getitem__", "__contains__", "__iter__", "__len__", "__enter__")


class Member:
    """A method, a property or an attribute: its name, how it is written, and what is said about it."""

    def __init__(self, name, signature, text, owner):
        self.name = name
        self.signature = signature
        self.text = text
        self.owner = owner


def parsed(name):
    return ast.parse((PACKAGE / name).read_text(encoding="utf-8"))


def constant(name):
    """A list or dictionary of `__init__.py`."""
    for node in parsed("__init__.py").body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise SystemExit(f"`__init__.py` has no `{name}`")


def functions(module):
    """The functions and classes at the top of a module; of several overloads, the last."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name: node for node in module.body if isinstance(node, kinds)}


def imports(module):
    """The names that a module imports from others of the package, with their modules."""
    froms = (node for node in ast.walk(module) if isinstance(node, ast.ImportFrom) and node.module)
    return {alias.name: node.module.rpartition(".")[2] for node in froms for alias in node.names}


def decorators(node):
    return [ast.unparse(each) for each in node.decorator_list]


def arguments(node, leave_out_self):
    """The parameters of a function as they are written, without types: those are in the stubs and in editors."""
    given = node.args
    parts = []
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    for index, (argument, default) in enumerate(zip(positional, defaults)):
        if index == 0 and leave_out_self:
            continue
        parts.append(with_default(argument.arg, default))
    if given.vararg:
        parts.append(f"*{given.vararg.arg}")
    elif given.kwonlyargs:
        parts.append("*")
    parts += [with_default(argument.arg, default) for argument, default in zip(given.kwonlyargs, given.kw_defaults)]
    if given.kwarg:
        parts.append(f"**{given.kwarg.arg}")
    return ", ".join(part for part in parts if not part.lstrip("*").startswith("_"))


def with_default(name, default):
    return name if default is None else f"{name}={ast.unparse(default).replace(chr(39), chr(34))}"


def is_method(node):
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


def member_of(node, owner, text):
    """A method or property as the page shows it; `None` for what only sets a property."""
    named = decorators(node)
    if any(each.endswith(".setter") for each in named):
        return None
    if "property" in named:
        return Member(node.name, node.name, text, owner)
    prefix = "await " if isinstance(node, ast.AsyncFunctionDef) and not yields(node) else ""
    prefix = "async for … in " if isinstance(node, ast.AsyncFunctionDef) and yields(node) else prefix
    signature = f"{prefix}{node.name}({arguments(node, 'staticmethod' not in named)})"
    return Member(node.name, signature + returned(node), text, owner)


def returned(node):
    """What a function returns, as it is written, if that says something."""
    if yields(node) or "overload" in decorators(node):
        return ""
    kind = "" if node.returns is None else ast.unparse(node.returns).strip("'")
    return "" if kind in ("", "Any", "None", "Self", "NoReturn") else f" -> {kind}"


def yields(node):
    return any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(node))


def of_class(node, owner):
    """The public members of a class, in their order."""
    found = {}
    for each in node.body:
        if is_method(each) and not each.name.startswith("_") and "overload" not in decorators(each):
            member = member_of(each, owner, ast.get_docstring(each))
            if member is not None:
                found[each.name] = member
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Name) and each.value.id in found:
            name = each.targets[0].id
            found[name] = Member(name, f"{name}(…)", f"The same as `{each.value.id}`.", owner)
    return found


def node_of(name, module_name):
    """A class, or a function, of a module."""
    return functions(parsed(f"{module_name}.py"))[name]


def bases(node, module_name):
    """The classes of the package that a class extends, with their modules."""
    module = parsed(f"{module_name}.py")
    for base in map(ast.unparse, node.bases):
        where = module_name if base in functions(module) else imports(module).get(base)
        if where and (PACKAGE / f"{where}.py").exists():
            yield base, where


def inherited(name, module_name):
    """The members of a class of the package and of those that it extends. Its own come first."""
    node = node_of(name, module_name)
    found = of_class(node, name)
    for base, where in bases(node, module_name):
        for key, member in inherited(base, where).items():
            found.setdefault(key, member)
    return found


def constructor(name, module_name):
    """How objects of a class are made: the parameters of its `__init__`, or of that of a class that it extends."""
    node = node_of(name, module_name)
    for each in node.body:
        if is_method(each) and each.name == "__init__":
            return arguments(each, True)
    of_bases = (constructor(base, where) for base, where in bases(node, module_name))
    return next(of_bases, "")


def rust_docs(name):
    """The documentation of a class in Rust and of its methods and fields, as Python's `help` shows it."""
    docs = {}
    for file, type_name in IN_RUST[name]:
        text = (CRATE / "src" / file).read_text(encoding="utf-8")
        # Attributes stand between the documentation and what it is of.
        text = re.sub(r"^[ ]*#\[.*?\]\n", "", text, flags=re.MULTILINE | re.DOTALL)
        lines = []
        for line in text.splitlines():
            stripped = line.strip()
            if stripped.startswith("///"):
                lines.append(stripped[3:].strip())
                continue
            found = re.match(r"(?:pub(?:\([a-z]+\))? )?(?:(fn|struct) (\w+)|(\w+): \w+)", stripped)
            if lines and found:
                key = found.group(2) or found.group(3)
                if found.group(1) == "struct":
                    key = "" if key == type_name else None
                if key is not None:
                    docs.setdefault(key, " ".join(lines))
            lines = []
    return docs


def native(name):
    """A class in Rust: its description and its members, as the stub lists them."""
    node = functions(parsed("_native.pyi"))[name]
    docs = rust_docs(name)
    in_python = {**functions(parsed("_array.py")), **functions(parsed("_array_files.py"))}
    found = {}
    for each in node.body:
        if isinstance(each, ast.AnnAssign):
            key = each.target.id
            found[key] = Member(key, f"{key}: {ast.unparse(each.annotation)}", docs.get(key), name)
        if not is_method(each) or (each.name.startswith("_") and each.name not in SPECIAL) or each.name in found:
            continue
        function = in_python.get(IN_PYTHON.get((name, each.name), each.name))
        text = docs.get(each.name) or (function and ast.get_docstring(function))
        found[each.name] = member_of(each, name, text)
    initial = next(each for each in node.body if is_method(each) and each.name in ("__init__", "__new__"))
    return docs.get(""), arguments(initial, True).replace("...", '""'), found


def in_markdown(text):
    """Documentation of Python as Markdown, with each paragraph on one line."""
    text = re.sub(r":\w+:`~?([\w.]+)`", lambda found: f"`{found.group(1).replace('flow_serve.', '')}`", text)
    prose, *fields = re.split(r"\n(?=:param |:return:|:raises )", text.replace("``", "`"))
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", prose.strip())]
    if fields:
        paragraphs.append("\n".join(map(field_in_markdown, fields)))
    return "\n\n".join(paragraphs)


def field_in_markdown(field):
    """What is said about a parameter, the result or an error."""
    kind, name, said = re.match(r":(param|return|raises) ?(\w*): (.*)", " ".join(field.split())).groups()
    subject = {"param": f"`{name}`:", "return": "Returns", "raises": f"Raises `{name}`:"}[kind]
    return f"- {subject} {said}"


class Page:
    """The page as it is being written. It remembers which members it has, and what has no documentation."""

    def __init__(self):
        self.lines = [HEADER]
        self.missing = []
        self.described = {}

    def add(self, text):
        self.lines.append(f"{text}\n")

    def text(self, of, text):
        if not text:
            self.missing.append(of)
            return "?"
        return in_markdown(text)

    def name(self, name, signature, text):
        self.add(f"### `{name}`")
        self.add(f"`{signature}`")
        self.add(self.text(name, text))

    def members(self, name, members):
        """What a class has. What another class on the page has too is only named."""
        lines, elsewhere = [], {}
        for member in members.values():
            if member is None or member.text == REFUSED:
                continue
            first = self.described.setdefault((member.owner, member.name), name)
            if first != name:
                elsewhere.setdefault(first, []).append(f"`{member.name}`")
                continue
            text = self.text(f"{name}.{member.name}", member.text)
            indented = "\n".join(f"  {line}".rstrip() for line in text.split("\n"))
            lines.append(f"- **`{member.signature}`**  \n{indented}")
        if lines:
            self.add("\n".join(lines))
        for first, names in elsewhere.items():
            self.add(f"As in `{first}`: {', '.join(names)}.")

    def class_of(self, name, module_name):
        made = name if name in NOT_MADE else f"{name}({constructor(name, module_name)})"
        self.name(name, made, ast.get_docstring(node_of(name, module_name)))
        self.members(name, inherited(name, module_name))

    def function(self, name, module_name):
        node = node_of(name, module_name)
        self.name(name, f"{name}({arguments(node, False)})", ast.get_docstring(node))

    def native(self, name):
        text, initial, members = native(name)
        self.name(name, f"{name}({initial})", text)
        self.members(name, members)

    def exceptions(self):
        self.add("## Exceptions")
        self.add("They are in `flow_serve.exceptions`.")
        rows = ["| Exception | Extends | When |", "|---|---|---|"]
        for name, node in functions(parsed("exceptions.py")).items():
            bases = ", ".join(f"`{ast.unparse(base)}`" for base in node.bases)
            text = " ".join(self.text(name, ast.get_docstring(node)).split())
            rows.append(f"| `{name}` | {bases} | {text} |")
        self.add("\n".join(rows))


def page():
    listed = [name for names in SECTIONS.values() for name in names]
    if sorted(listed) != sorted(constant("__all__")):
        different = sorted(set(listed) ^ set(constant("__all__")))
        raise SystemExit(f"`SECTIONS` and `__all__` differ in {', '.join(different)}; add each name to both")
    written, modules = Page(), constant("_LAZY")
    for title, names in SECTIONS.items():
        written.add(f"## {title}")
        for name in names:
            if name in IN_RUST:
                written.native(name)
            elif name[0].isupper():
                written.class_of(name, modules[name])
            else:
                written.function(name, modules[name])
    written.exceptions()
    if written.missing:
        raise SystemExit(f"these have no documentation; write it where they are defined: {', '.join(written.missing)}")
    return "\n".join(written.lines).rstrip() + "\n"


if __name__ == "__main__":
    text = page()
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"`{PAGE}` is not fresh; run `python {sys.argv[0]}`")
