"""Executors: the base class, and the decorators that bind methods to endpoints.

`_run.py` finds a class and makes a `Definition` of it; the native module serves that. What a method gets and what may be
done with what it returns is decided here, once for each method and not for each call.
"""

import asyncio
import contextlib
import functools
import inspect
import os
import sys
import threading
import traceback
from types import SimpleNamespace

from ._native import Document, DocumentArray

DEFAULT = "/default"

#: What a method may ask for.
ARGUMENTS = ("docs", "parameters", "docs_matrix", "docs_map", "tracing_context")

_BATCHING_KEYS = ("preferred_batch_size", "timeout", "flush_all", "use_custom_metric", "use_dynamic_batching")


def requests(func=None, *, on=None, request_schema=None, response_schema=None):
    """Binds a method to an endpoint, or to several. Without `on` it answers every endpoint that has no method."""

    def bind(method):
        endpoints = list(on) if isinstance(on, (list, tuple, set)) else [on or DEFAULT]
        _check_signature(method)
        method.__flow_endpoints__ = getattr(method, "__flow_endpoints__", []) + endpoints
        method.__flow_schema__ = (request_schema, response_schema)
        return method

    return bind(func) if func else bind


def dynamic_batching(
    func=None,
    *,
    preferred_batch_size=None,
    timeout=10_000,
    flush_all=False,
    custom_metric=None,
    use_custom_metric=False,
    use_dynamic_batching=True,
):
    """Lets requests share calls of a method: up to `preferred_batch_size` documents, after `timeout` milliseconds at most."""
    options = {
        "preferred_batch_size": preferred_batch_size,
        "timeout": timeout,
        "flush_all": flush_all,
        "custom_metric": custom_metric,
        "use_custom_metric": use_custom_metric,
        "use_dynamic_batching": use_dynamic_batching,
    }

    def batch(method):
        method.__flow_batching__ = options
        return method

    return batch(func) if func else batch


def monitor(*, name=None, documentation=None):
    """Measures the time of a method that is bound to no endpoint, as the metric `jina_<name>`."""

    def measure(method):
        title = name or f"{method.__name__}_seconds"
        text = documentation or f"Time spent calling method {method.__name__}"

        @functools.wraps(method)
        def measured(self, *args, **kwargs):
            with self.monitor(title, text):
                return method(self, *args, **kwargs)

        return measured

    return measure


class Executor:
    """The base class of executors. Methods decorated with `@requests` answer requests."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        init = cls.__dict__.get("__init__")
        if init is not None and not _takes_keywords(init):
            raise TypeError(
                f"`{cls.__name__}.__init__` must accept `**kwargs` and pass them to `super().__init__(**kwargs)`"
            )

    def __init__(self, metas=None, requests=None, runtime_args=None, workspace=None, dynamic_batching=None, **kwargs):
        args = dict(vars(runtime_args)) if isinstance(runtime_args, SimpleNamespace) else dict(runtime_args or {})
        fields = {"name": "", "description": "", "workspace": "", "py_modules": ""}
        fields.update(metas or {})
        fields["name"] = fields["name"] or type(self).__name__
        self.metas = SimpleNamespace(**fields)
        self.runtime_args = SimpleNamespace(**args)
        self.requests = {bound.endpoint: bound.function for bound in bindings(type(self), requests)}
        self.dynamic_batching = dict(dynamic_batching or {})
        self.logger = Logger(type(self).__name__)
        self.tracer = self.meter = None
        self._init_workspace = workspace

    @property
    def workspace(self):
        """The folder for the executor's data, of its own; made when it is asked for."""
        base = getattr(self.runtime_args, "workspace", None) or self.metas.workspace or self._init_workspace
        if not base:
            cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
            base = os.path.join(cache, "flow", "workspaces")
        parts = [base, self.metas.name]
        shard = getattr(self.runtime_args, "shard_id", -1)
        if shard not in (None, -1):
            parts.append(str(shard))
        folder = os.path.abspath(os.path.join(*parts))
        os.makedirs(folder, exist_ok=True)
        return folder

    def monitor(self, name=None, documentation=None):
        """Measures the time of a block, as the metric `jina_<name>`: `with self.monitor("name", "what it is"):`."""
        timers = getattr(self.runtime_args, "_monitor", None)
        if timers is None:
            return contextlib.nullcontext()
        return _Measured(timers.start(name, documentation or f"Time spent in {name}"))

    def close(self):
        """Called when the executor ends. Write what must be saved."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class _Measured:
    __slots__ = ("timer",)

    def __init__(self, timer):
        self.timer = timer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.timer.stop()


class Logger:
    """The log of the process, with the methods of Python's loggers and Jina's `success`."""

    def __init__(self, name):
        self.name = name

    def log(self, level, message, *args, exc_info=False, **_):
        from ._native import log

        text = str(message) % args if args else str(message)
        if exc_info:
            text += "\n" + traceback.format_exc().rstrip()
        log(max(0, min(int(level), 255)), f"{self.name}: {text}")

    def debug(self, message, *args, **kwargs):
        self.log(10, message, *args, **kwargs)

    def info(self, message, *args, **kwargs):
        self.log(20, message, *args, **kwargs)

    success = info

    def warning(self, message, *args, **kwargs):
        self.log(30, message, *args, **kwargs)

    warn = warning

    def error(self, message, *args, **kwargs):
        self.log(40, message, *args, **kwargs)

    critical = error

    def exception(self, message, *args, **kwargs):
        self.log(40, message, *args, exc_info=True, **kwargs)


class Binding:
    """A method and its endpoint."""

    __slots__ = ("endpoint", "name", "function", "batching")

    def __init__(self, endpoint, name, function, batching):
        self.endpoint = endpoint
        self.name = name
        self.function = function
        self.batching = batching


def bindings(cls, overrides=None):
    """The methods of a class by endpoint. `overrides` binds endpoints to methods by name, decorated or not."""
    found = {}
    for base in reversed(cls.__mro__):
        for name, method in vars(base).items():
            for endpoint in getattr(method, "__flow_endpoints__", ()):
                found[endpoint] = name
    for endpoint, name in (overrides or {}).items():
        if not callable(getattr(cls, name, None)):
            raise AttributeError(
                f"`requests` binds `{endpoint}` to `{name}`, but `{cls.__name__}` has no such method"
            )
        # A method that is bound anew loses the first of its own endpoints, as with Jina.
        own = next((known for known, method in found.items() if method == name), None)
        found.pop(own, None)
        found[endpoint] = name
    methods = []
    for endpoint, name in found.items():
        # Looked up again: a subclass may override a method without decorating it.
        function = getattr(cls, name)
        inherited = (vars(base).get(name) for base in cls.__mro__)
        batching = next((own.__flow_batching__ for own in inherited if hasattr(own, "__flow_batching__")), None)
        methods.append(Binding(endpoint, name, function, batching))
    return methods


class Method:
    """What the native module calls for an endpoint."""

    __slots__ = ("endpoint", "name", "kind", "call", "batching", "custom_metric")


class Definition:
    """An executor to serve, as the native module reads it."""

    def __init__(self, cls, arguments, config):
        self.cls = cls
        self.class_name = cls.__name__
        self.arguments = arguments
        self.config = config
        self.describe = describe
        self.instance = None
        requests = {**config["requests"], **arguments.uses_requests()}
        self.requests = requests
        self.dynamic_batching = _merged(config["dynamic_batching"], arguments.uses_dynamic_batching())
        self.loop = None
        self.lock = None
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

    def load(self, with_options, timers):
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
        own = {
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

    def close(self):
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

    def _check_batching(self, found):
        names = {binding.name for binding in found} | {binding.endpoint for binding in found}
        for name in self.dynamic_batching:
            if name not in names and not (name.startswith("/") and DEFAULT in names):
                known = ", ".join(sorted(names))
                raise ValueError(f"the dynamic batching of `{name}` names no endpoint and no method; expected one of {known}")

    def _method(self, binding):
        method = Method()
        method.endpoint, method.name = binding.endpoint, binding.name
        method.batching, method.custom_metric = self._batching(binding)
        function = binding.function
        adapter = adapter_of(function)
        if _is_generator(function):
            method.kind = "stream"
            method.batching = None
            method.call = self._streaming(function, adapter)
            return method
        named = inspect.signature(function).parameters
        wants_parts = "docs_matrix" in named or "docs_map" in named
        method.kind = "matrix" if wants_parts else "docs"
        if wants_parts:
            method.batching = None
        run = self._runner(function)
        method.call = self._whole(function, run, adapter)
        return method

    def _batching(self, binding):
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

    def _runner(self, function):
        """Runs a method with its keywords, as its kind wants to be run."""
        if _is_coroutine(function):
            return lambda kwargs: self._await(function(self.instance, **kwargs))
        lock = self.lock
        if lock is None:
            return lambda kwargs: function(self.instance, **kwargs)

        def locked(kwargs):
            with lock:
                return function(self.instance, **kwargs)

        return locked

    def _await(self, awaitable):
        async def wait():
            return await awaitable

        return asyncio.run_coroutine_threadsafe(wait(), self.loop).result()

    def _whole(self, function, run, adapter):
        wanted = _wanted(function)
        one_by_one = "doc" in inspect.signature(function).parameters
        checked = _checked
        if one_by_one:
            run = _one_by_one(run, wanted)
        if adapter is None and not one_by_one and wanted is None:
            # The common case: a method with `**kwargs`.
            def call(docs, parameters, docs_matrix=None, docs_map=None):
                return checked(
                    run(
                        {
                            "docs": docs,
                            "parameters": parameters,
                            "docs_matrix": [docs] if docs_matrix is None else docs_matrix,
                            "docs_map": {} if docs_map is None else docs_map,
                            "tracing_context": None,
                        }
                    )
                )

            return call

        def call_with(docs, parameters, docs_matrix=None, docs_map=None):
            native = docs
            if adapter is not None:
                docs_matrix, docs_map = adapter.parts(docs_matrix, docs_map)
                docs = adapter.array(docs)
            kwargs = {
                "docs": docs,
                "parameters": adapter.parameters(parameters) if adapter is not None else parameters,
                "docs_matrix": [docs] if docs_matrix is None else docs_matrix,
                "docs_map": {} if docs_map is None else docs_map,
                "tracing_context": None,
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

    def _streaming(self, function, adapter):
        wanted = _wanted(function)
        names = inspect.signature(function).parameters

        def call(doc, parameters):
            if adapter is not None:
                doc = adapter.document(doc)
                parameters = adapter.parameters(parameters)
            kwargs = {"doc": doc, "parameters": parameters, "docs_matrix": None, "docs_map": None, "tracing_context": None}
            if "docs" in names and "doc" not in names:
                kwargs["docs"] = DocumentArray([doc]) if adapter is None else [doc]
                kwargs.pop("doc")
            if wanted is not None:
                kwargs = {name: value for name, value in kwargs.items() if name in wanted}
            made = function(self.instance, **kwargs)
            if inspect.isasyncgen(made):
                made = self._pull(made)
            return (_made(item, adapter) for item in made)

        return call

    def _pull(self, made):
        try:
            while True:
                try:
                    yield self._await(made.__anext__())
                except StopAsyncIteration:
                    return
        finally:
            self._await(made.aclose())


def describe(error):
    """An exception for replies and the log: its text, its class, its arguments and its traceback."""
    arguments = [str(argument) for argument in getattr(error, "args", ())]
    trace = error.__traceback__
    # The lines of this file say nothing to the author of a method.
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    stacks = traceback.format_exception(type(error), error, trace)
    return repr(error), type(error).__name__, arguments, stacks


def adapter_of(function):
    """What hands a method the documents of the real `docarray`, if its module uses that; `None` for our own."""
    docarray = sys.modules.get("docarray")
    if docarray is None or (getattr(docarray, "__file__", None) or "").startswith(os.path.dirname(__file__)):
        return None
    from . import _executor_docarray

    return _executor_docarray.adapter(docarray, function)


def _check_signature(method):
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        raise TypeError(f"`@requests` decorates methods, not {method!r}") from None
    if not any(it.kind is it.VAR_KEYWORD for it in parameters):
        names = {it.name for it in parameters}
        if not set(ARGUMENTS[:-1]) <= names:
            raise TypeError(
                f"{method} accepts only {sorted(names)} which is fewer than expected, "
                "please add `**kwargs` to the function signature."
            )


def _takes_keywords(function):
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(it.kind is it.VAR_KEYWORD for it in parameters)


def _wanted(function):
    """The names of a function's parameters; `None` if it takes any keyword."""
    parameters = inspect.signature(function).parameters
    if any(it.kind is it.VAR_KEYWORD for it in parameters.values()):
        return None
    return set(parameters)


def _is_coroutine(function):
    return inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.isasyncgenfunction(inspect.unwrap(function))


def _is_generator(function):
    plain = inspect.unwrap(function)
    return inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain)


def _checked(returned):
    if returned is None or isinstance(returned, (DocumentArray, dict)):
        return returned
    raise TypeError(f"The return type must be DocList / Dict / `None`, but getting {returned!r}")


def _one_by_one(run, wanted):
    """Runs a method that takes one document (`doc`) for each document."""

    def each(kwargs):
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


def _as_sent(returned, sent):
    """What a method returned, with documents in the format in which the request's came."""
    docs, results = returned if isinstance(returned, tuple) else (returned, None)
    if docs and sent and docs.version != sent.version:
        docs = docs.to_version(sent.version)
    return docs if results is None else (docs, results)


def _made(item, adapter):
    if adapter is not None:
        return adapter.made(item)
    if isinstance(item, Document):
        return item
    raise TypeError(f"a generator must yield documents, but yielded {item!r}")


def _nothing(self, **kwargs):
    return None


def _merged(first, second):
    merged = {name: dict(options) for name, options in first.items()}
    for name, options in second.items():
        merged[name] = {**merged.get(name, {}), **options}
    return merged


def _start_loop():
    """An event loop on a thread of its own, for coroutines."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="asyncio", daemon=True).start()
    return loop
