"""What the native module serves: the methods of an executor's class, each with what it wants.

What a method gets and what may be done with what it returns is decided here, once for each method and not for each call.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import sys
import threading
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any, Optional

from . import _executor
from ._executor import DEFAULT, Binding, Executor, bindings
from ._executor_docarray import Generation
from ._logger import REQUESTS
from ._native import Document, DocumentArray, ExecutorArguments, ExecutorMonitor, current_requests, tracing_context
from ._parameters import model_of
from ._schemas import MethodSchema
from ._tracing import INNERMOST

Keywords = dict[str, Any]

_BATCHING_KEYS = ("preferred_batch_size", "timeout", "flush_all", "use_custom_metric", "use_dynamic_batching")


#: The options of a method's batching and its custom metric.
Batching = tuple[Optional[dict[str, Any]], Optional[Callable[[Document], float]]]


class Method:
    """What the native module calls for an endpoint."""

    __slots__ = ("batching", "call", "custom_metric", "endpoint", "kind", "name", "schema")

    def __init__(
        self, binding: Binding, kind: str, call: Callable[..., Any], batching: Batching, schema: MethodSchema
    ) -> None:
        self.endpoint = binding.endpoint
        self.name = binding.name
        self.kind = kind
        self.call = call
        self.batching, self.custom_metric = batching
        self.schema = schema


class Definition:
    """An executor to serve, as the native module reads it."""

    def __init__(self, cls: type, arguments: ExecutorArguments, config: dict[str, Any]) -> None:
        self.cls = cls
        self.class_name = cls.__name__
        self.arguments = arguments
        self.config = config
        self.describe = describe
        self.instance: Any = None
        requests = {**config["requests"], **arguments.uses_requests()}
        self.requests = requests
        self.dynamic_batching = _merged(config["dynamic_batching"], arguments.uses_dynamic_batching())
        self.loop: asyncio.AbstractEventLoop | None = None
        self.lock: threading.Lock | None = None
        found = bindings(cls, requests)
        self._check_batching(found)
        self.has_coroutines = any(_is_coroutine(binding.function) for binding in found)
        many_threads = self.has_coroutines or arguments.allows_concurrent_calls
        if many_threads and not arguments.allows_concurrent_calls:
            # Synchronous methods run one at a time, though coroutines overlap.
            self.lock = threading.Lock()
        self.methods = [self._method(binding) for binding in found]
        if cls is Executor and not self.methods:
            self.methods.append(self._method(Binding(DEFAULT, "default", _nothing, None)))

    def load(self, with_options: dict[str, Any], timers: ExecutorMonitor) -> None:
        """Makes the object, on the thread of the first worker."""
        arguments, config = self.arguments, self.config
        metas = {**config["metas"], **arguments.uses_metas()}
        # The loop is there while the object is made, as with Jina.
        self.loop = _start_loop()
        asyncio.set_event_loop(self.loop)
        runtime_args = {
            "name": arguments.runtime_name,
            "workspace": arguments.workspace or config["workspace"],
            "shard_id": -1 if arguments.shard is None else arguments.shard,
            "host": arguments.host,
            "port": arguments.port,
            "monitoring": arguments.monitoring,
            "allow_concurrent": arguments.allows_concurrent_calls,
            "_monitor": timers,
        }
        own: dict[str, Any] = {
            "metas": metas,
            "requests": self.requests,
            "runtime_args": runtime_args,
            "dynamic_batching": self.dynamic_batching,
        }
        options = {**config["with"], **with_options}
        instance = self.cls(**options, **own)
        if not hasattr(instance, "runtime_args"):
            # Its `__init__` does not call that of the base class.
            Executor.__init__(instance, **own)
        self.instance = instance

    def close(self) -> None:
        """Closes the object; what it printed is written, and what it registered for the end is called."""
        try:
            if self.instance is not None:
                closed = self.instance.close()
                if inspect.isawaitable(closed):
                    self._await(closed)
        finally:
            import atexit

            atexit._run_exitfuncs()
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()

    def _check_batching(self, found: list[Binding]) -> None:
        names = {binding.name for binding in found} | {binding.endpoint for binding in found}
        for name in self.dynamic_batching:
            if name not in names and not (name.startswith("/") and DEFAULT in names):
                known = ", ".join(sorted(names))
                raise ValueError(f"the dynamic batching of `{name}` names no endpoint and no method; expected one of {known}")

    def _method(self, binding: Binding) -> Method:
        options, metric = self._batching(binding)
        function = binding.function
        adapter = adapter_of(function)
        schema = MethodSchema(function, adapter)
        if _is_generator(function):
            return Method(binding, "stream", self._streaming(function, adapter), (None, metric), schema)
        call = self._whole(function, self._runner(function), adapter)
        named = inspect.signature(function).parameters
        if "docs_matrix" in named or "docs_map" in named:
            return Method(binding, "matrix", call, (None, metric), schema)
        return Method(binding, "docs", call, (options, metric), schema)

    def _batching(self, binding: Binding) -> Batching:
        """The options of a method's batching, and its custom metric."""
        options = dict(binding.batching or {})
        metric = options.pop("custom_metric", None)
        own = self.dynamic_batching
        overrides = {**own.get(binding.name, {}), **own.get(binding.endpoint, {})}
        unknown = sorted(set(overrides) - set(_BATCHING_KEYS))
        if unknown:
            raise ValueError(
                f"`{unknown[0]}` is not an option of dynamic batching; expected one of {', '.join(_BATCHING_KEYS)}"
            )
        options.update(overrides)
        if not options or not options.get("use_dynamic_batching", True):
            return None, None
        if not options.get("use_custom_metric"):
            return options, None
        if metric is None:
            raise ValueError(
                f"the dynamic batching of `{binding.name}` has `use_custom_metric`, but the method has no `custom_metric`"
            )
        return options, metric

    def _runner(self, function: Callable[..., Any]) -> Callable[[Keywords], Any]:
        """Runs a method with its keywords, as its kind wants to be run."""
        if _is_coroutine(function):
            return lambda kwargs: self._await(function(self.instance, **kwargs))
        lock = self.lock
        if lock is None:
            return lambda kwargs: function(self.instance, **kwargs)

        def locked(kwargs: Keywords) -> Any:
            with lock:
                return function(self.instance, **kwargs)

        return locked

    def _await(self, awaitable: Awaitable[Any]) -> Any:
        # What belongs to this thread's call is set where the coroutine runs.
        requests, span = current_requests(), tracing_context()

        async def wait() -> Any:
            REQUESTS.set(requests)
            INNERMOST.set(span)
            return await awaitable

        assert self.loop is not None, "the object is made before its methods are called"
        return asyncio.run_coroutine_threadsafe(wait(), self.loop).result()

    def _whole(
        self, function: Callable[..., Any], run: Callable[[Keywords], Any], adapter: Generation | None
    ) -> Callable[..., Any]:
        wanted = _wanted(function)
        one_by_one = "doc" in inspect.signature(function).parameters
        checked = _checked
        model = model_of(function)
        if one_by_one:
            run = _one_by_one(run, wanted)
        if adapter is None and not one_by_one and wanted is None and model is None:
            # The common case: a method with `**kwargs`.
            def call(docs: DocumentArray, parameters: Any, docs_matrix: Any = None, docs_map: Any = None) -> Any:
                return checked(
                    run(
                        {
                            "docs": docs,
                            "parameters": parameters,
                            "docs_matrix": [docs] if docs_matrix is None else docs_matrix,
                            "docs_map": {} if docs_map is None else docs_map,
                            "tracing_context": tracing_context(),
                        }
                    )
                )

            return call

        def call_with(docs: Any, parameters: Any, docs_matrix: Any = None, docs_map: Any = None) -> Any:
            native = docs
            if adapter is not None:
                docs_matrix, docs_map = adapter.parts(docs_matrix, docs_map)
                docs = adapter.array(docs)
            kwargs = {
                "docs": docs,
                "parameters": parameters if model is None else model(**parameters),
                "docs_matrix": [docs] if docs_matrix is None else docs_matrix,
                "docs_map": {} if docs_map is None else docs_map,
                "tracing_context": tracing_context(),
            }
            if wanted is not None and not one_by_one:
                kwargs = {name: value for name, value in kwargs.items() if name in wanted}
            returned = run(kwargs)
            if adapter is not None:
                return _as_sent(adapter.returned(returned, docs), native)
            if one_by_one and isinstance(returned, list):
                return DocumentArray(returned)
            return checked(returned)

        return call_with

    def _streaming(self, function: Callable[..., Any], adapter: Generation | None) -> Callable[..., Iterator[Document]]:
        wanted = _wanted(function)
        names = inspect.signature(function).parameters
        model = model_of(function)

        def call(doc: Any, parameters: Any) -> Iterator[Document]:
            if adapter is not None:
                doc = adapter.document(doc)
            kwargs: Keywords = {
                "doc": doc,
                "parameters": parameters if model is None else model(**parameters),
                "docs_matrix": None,
                "docs_map": None,
                "tracing_context": tracing_context(),
            }
            if "docs" in names and "doc" not in names:
                kwargs["docs"] = DocumentArray([doc]) if adapter is None else [doc]
                kwargs.pop("doc")
            if wanted is not None:
                kwargs = {name: value for name, value in kwargs.items() if name in wanted}
            made: Any = function(self.instance, **kwargs)
            items: Iterator[Any] = self._pull(made) if inspect.isasyncgen(made) else made
            return (_made(item, adapter) for item in items)

        return call

    def _pull(self, made: AsyncGenerator[Any, Any]) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._await(made.__anext__())
                except StopAsyncIteration:
                    return
        finally:
            self._await(made.aclose())


def describe(error: BaseException) -> tuple[str, str, list[str], list[str]]:
    """An exception for replies and the log: its text, its class, its arguments and its traceback."""
    arguments = [str(argument) for argument in getattr(error, "args", ())]
    trace = error.__traceback__
    # The lines of these files say nothing to the author of a method.
    own = (__file__, _executor.__file__)
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    stacks = traceback.format_exception(type(error), error, trace)
    return repr(error), type(error).__name__, arguments, stacks


def adapter_of(function: Callable[..., Any]) -> Generation | None:
    """What hands a method the documents of the real `docarray`, if its module uses that; `None` for our own."""
    docarray = sys.modules.get("docarray")
    if docarray is None or (getattr(docarray, "__file__", None) or "").startswith(os.path.dirname(__file__)):
        return None
    from . import _executor_docarray

    return _executor_docarray.adapter(docarray, function)


def _wanted(function: Callable[..., Any]) -> set[str] | None:
    """The names of a function's parameters; `None` if it takes any keyword."""
    parameters = inspect.signature(function).parameters
    if any(it.kind is it.VAR_KEYWORD for it in parameters.values()):
        return None
    return set(parameters)


def _is_coroutine(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.isasyncgenfunction(inspect.unwrap(function))


def _is_generator(function: Callable[..., Any]) -> bool:
    plain = inspect.unwrap(function)
    return inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain)


def _checked(returned: Any) -> Any:
    if returned is None or isinstance(returned, (DocumentArray, dict)):
        return returned
    raise TypeError(f"The return type must be DocList / Dict / `None`, but getting {returned!r}")


def _one_by_one(run: Callable[[Keywords], Any], wanted: set[str] | None) -> Callable[[Keywords], list[Any]]:
    """Runs a method that takes one document (`doc`) for each document."""

    def each(kwargs: Keywords) -> list[Any]:
        docs = kwargs.pop("docs")
        made = []
        for doc in docs:
            own = {**kwargs, "doc": doc}
            if wanted is not None:
                own = {name: value for name, value in own.items() if name in wanted}
            returned = run(own)
            made.append(doc if returned is None else returned)
        return made

    return each


def _as_sent(returned: Any, sent: DocumentArray) -> Any:
    """What a method returned, with documents in the format in which the request's came."""
    docs, results = returned if isinstance(returned, tuple) else (returned, None)
    if docs and sent and docs.version != sent.version:
        docs = docs.to_version(sent.version)
    return docs if results is None else (docs, results)


def _made(item: Any, adapter: Generation | None) -> Document:
    if adapter is not None:
        return adapter.made(item)
    if isinstance(item, Document):
        return item
    raise TypeError(f"a generator must yield documents, but yielded {item!r}")


def _nothing(self: Executor, **kwargs: Any) -> None:
    """What an executor without methods does."""


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    merged = {name: dict(options) for name, options in first.items()}
    for name, options in second.items():
        merged[name] = {**merged.get(name, {}), **options}
    return merged


def _start_loop() -> asyncio.AbstractEventLoop:
    """An event loop on a thread of its own, for coroutines."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="asyncio", daemon=True).start()
    return loop
