"""Executors: the base class, and the decorators that bind methods to endpoints.

`_run.py` finds a class, and `_definition.py` makes of it what the native module serves.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

from ._logger import Logger
from ._metering import Meter
from ._tracing import Tracer

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._native import Document, RunningTimer

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT = "/default"

#: What a method may ask for.
ARGUMENTS = ("docs", "parameters", "docs_matrix", "docs_map", "tracing_context")

@overload
def requests(func: Function) -> Function: ...


@overload
def requests(
    func: None = None, *, on: str | Iterable[str] | None = None, request_schema: Any = None, response_schema: Any = None
) -> Callable[[Function], Function]: ...


def requests(
    func: Any = None, *, on: str | Iterable[str] | None = None, request_schema: Any = None, response_schema: Any = None
) -> Any:
    """Binds a method to an endpoint, or to several. Without `on` it answers every endpoint that has no method.

    :param on: the endpoint, such as ``/encode``, or a list of endpoints
    :param request_schema: the class of the documents that the method takes, such as ``DocList[Text]`` of docarray; without
        it, the annotation of ``docs``
    :param response_schema: the class of the documents that it makes; without it, the annotation of what it returns
    """

    def bind(method: Any) -> Any:
        endpoints = [on or DEFAULT] if on is None or isinstance(on, str) else list(on)
        _check_signature(method)
        method.__flow_endpoints__ = getattr(method, "__flow_endpoints__", []) + endpoints
        method.__flow_schema__ = (request_schema, response_schema)
        return method

    return bind(func) if func else bind


@overload
def dynamic_batching(func: Function) -> Function: ...


@overload
def dynamic_batching(
    func: None = None,
    *,
    preferred_batch_size: int | None = None,
    timeout: float | None = 10_000,
    flush_all: bool = False,
    custom_metric: Callable[[Document], float] | None = None,
    use_custom_metric: bool = False,
    use_dynamic_batching: bool = True,
) -> Callable[[Function], Function]: ...


def dynamic_batching(
    func: Any = None,
    *,
    preferred_batch_size: int | None = None,
    timeout: float | None = 10_000,
    flush_all: bool = False,
    custom_metric: Callable[[Document], float] | None = None,
    use_custom_metric: bool = False,
    use_dynamic_batching: bool = True,
) -> Any:
    """Lets requests share calls of a method. The documents of each request come back with its own reply.

    :param preferred_batch_size: documents of a call; 4 by default
    :param timeout: milliseconds that the first document waits for others at most
    :param flush_all: whether a call gets all documents that wait, even if there are more than ``preferred_batch_size``
    :param custom_metric: a function that gives the weight of a document, such as the length of its text
    :param use_custom_metric: whether ``preferred_batch_size`` is a sum of these weights rather than a number of documents
    :param use_dynamic_batching: whether requests share calls at all
    """
    options = {
        "preferred_batch_size": preferred_batch_size,
        "timeout": timeout,
        "flush_all": flush_all,
        "custom_metric": custom_metric,
        "use_custom_metric": use_custom_metric,
        "use_dynamic_batching": use_dynamic_batching,
    }

    def batch(method: Any) -> Any:
        method.__flow_batching__ = options
        return method

    return batch(func) if func else batch


def monitor(*, name: str | None = None, documentation: str | None = None) -> Callable[[Function], Function]:
    """Measures the time of a method that is bound to no endpoint, as the metric `jina_<name>`.

    :param name: the name of the metric; without it, that of the method with ``_seconds``
    :param documentation: what the metric is, for its readers
    """

    def measure(method: Any) -> Any:
        title = name or f"{method.__name__}_seconds"
        text = documentation or f"Time spent calling method {method.__name__}"

        return _measuring(method, lambda executor: executor.monitor(title, text))

    return measure


def _measuring(method: Any, timer: Callable[[Executor], contextlib.AbstractContextManager[Any]]) -> Any:
    """The method, in the context that `timer` makes, until the last thing that it computes is there."""

    def plain(self: Executor, *args: Any, **kwargs: Any) -> Any:
        with timer(self):
            return method(self, *args, **kwargs)

    def generator(self: Executor, *args: Any, **kwargs: Any) -> Iterator[Any]:
        with timer(self):
            yield from method(self, *args, **kwargs)

    async def coroutine(self: Executor, *args: Any, **kwargs: Any) -> Any:
        with timer(self):
            return await method(self, *args, **kwargs)

    async def async_generator(self: Executor, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        with timer(self):
            async for item in method(self, *args, **kwargs):
                yield item

    measured: Callable[..., Any] = plain
    if inspect.isasyncgenfunction(method):
        measured = async_generator
    elif inspect.iscoroutinefunction(method):
        measured = coroutine
    elif inspect.isgeneratorfunction(method):
        measured = generator
    return functools.wraps(method)(measured)


class Executor:
    """The base class of executors. Methods decorated with `@requests` answer requests.

    A class with an ``__init__`` of its own takes its options there, and passes ``**kwargs`` to that of this class. Objects
    have ``metas``, ``requests``, ``runtime_args``, ``dynamic_batching``, ``logger``, ``tracer`` and ``meter``.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        init = cls.__dict__.get("__init__")
        if init is not None and not _takes_keywords(init):
            raise TypeError(
                f"`{cls.__name__}.__init__` must accept `**kwargs` and pass them to `super().__init__(**kwargs)`"
            )

    def __init__(
        self,
        metas: dict[str, Any] | None = None,
        requests: dict[str, str] | None = None,
        runtime_args: dict[str, Any] | SimpleNamespace | None = None,
        workspace: str | None = None,
        dynamic_batching: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        args: dict[str, Any] = dict(vars(runtime_args)) if isinstance(runtime_args, SimpleNamespace) else dict(runtime_args or {})
        fields: dict[str, Any] = {"name": "", "description": "", "workspace": "", "py_modules": ""}
        fields.update(metas or {})
        fields["name"] = fields["name"] or type(self).__name__
        self.metas = SimpleNamespace(**fields)
        self.runtime_args = SimpleNamespace(**args)
        self.requests = {bound.endpoint: bound.function for bound in bindings(type(self), requests)}
        self.dynamic_batching = dict(dynamic_batching or {})
        self.logger = Logger(type(self).__name__)
        self.tracer = Tracer()
        self.meter = Meter(args.get("_monitor"))
        self._init_workspace = workspace

    @property
    def workspace(self) -> str:
        """The folder for the executor's data, of its own; made when it is asked for."""
        base: Any = getattr(self.runtime_args, "workspace", None) or self.metas.workspace or self._init_workspace
        if not base:
            cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
            base = os.path.join(cache, "flow", "workspaces")
        parts = [str(base), self.metas.name]
        shard = getattr(self.runtime_args, "shard_id", -1)
        if shard not in (None, -1):
            parts.append(str(shard))
        folder: str = os.path.abspath(os.path.join(*parts))
        os.makedirs(folder, exist_ok=True)
        return folder

    def monitor(self, name: str | None = None, documentation: str | None = None) -> contextlib.AbstractContextManager[Any]:
        """Measures the time of a block, in seconds, as the metric `jina_<name>`: `with self.monitor("name", "what it is"):`.

        Without `monitoring` in the flow file, it does nothing.
        """
        timers = getattr(self.runtime_args, "_monitor", None)
        if timers is None:
            return contextlib.nullcontext()
        return _Measured(timers.start(name, documentation or f"Time spent in {name}"))

    @classmethod
    def load_config(
        cls,
        source: str | os.PathLike[str],
        *,
        uses_with: Mapping[str, Any] | None = None,
        uses_metas: Mapping[str, Any] | None = None,
        uses_requests: Mapping[str, str] | None = None,
        uses_dynamic_batching: Mapping[str, Any] | None = None,
        runtime_args: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """An executor as an object in this process, for tests for example.

        :param source: the path of a ``config.yml``, or of a Python file with one class of executors
        :param uses_with: options of ``__init__``, which win over those of the file; the other ``uses_…`` are those of a flow file
        :param runtime_args: what ``self.runtime_args`` is to have
        :raises BadConfigSource: there is no such file
        """
        from ._load import load

        return load(cls, source, uses_with, uses_metas, uses_requests, uses_dynamic_batching, runtime_args, options)

    @classmethod
    def serve(
        cls,
        uses_with: Mapping[str, Any] | None = None,
        uses_metas: Mapping[str, Any] | None = None,
        uses_requests: Mapping[str, str] | None = None,
        stop_event: Any = None,
        uses_dynamic_batching: Mapping[str, Any] | None = None,
        reload: bool = False,
        **options: Any,
    ) -> None:
        """Serves the class as a :class:`Deployment`, until Ctrl-C or until `stop_event` is set."""
        from ._deployment import Deployment
        from .exceptions import NotSupportedError

        if reload:
            raise NotSupportedError("`reload` of `serve` is not supported; write a flow file with `reload: true`")
        options.update(uses_with=uses_with, uses_metas=uses_metas, uses_requests=uses_requests)
        options.update(uses_dynamic_batching=uses_dynamic_batching)
        with Deployment(uses=cls, **options) as deployment:
            deployment.block(stop_event)

    @classmethod
    def from_hub(cls, uri: str, *_arguments: Any, **_options: Any) -> NoReturn:
        """Is not supported."""
        from .exceptions import NotSupportedError

        raise NotSupportedError(f"`{uri}` cannot be loaded: Jina's hub is no more; `flow hub` shares executors in a registry of your own")

    def close(self) -> Any:
        """Called when the executor ends. Write what must be saved. It may be `async`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Measured:
    __slots__ = ("timer",)

    def __init__(self, timer: RunningTimer) -> None:
        self.timer = timer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.stop()


class Binding:
    """A method and its endpoint."""

    __slots__ = ("endpoint", "name", "function", "batching")

    def __init__(self, endpoint: str, name: str, function: Callable[..., Any], batching: dict[str, Any] | None) -> None:
        self.endpoint = endpoint
        self.name = name
        self.function = function
        self.batching = batching


def bindings(cls: type, overrides: dict[str, str] | None = None) -> list[Binding]:
    """The methods of a class by endpoint. `overrides` binds endpoints to methods by name, decorated or not."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        for name, method in vars(base).items():
            for endpoint in getattr(method, "__flow_endpoints__", ()):
                found[endpoint] = name
    for endpoint, name in (overrides or {}).items():
        if not callable(getattr(cls, name, None)):
            raise AttributeError(
                f"`requests` binds `{endpoint}` to `{name}`, but `{cls.__name__}` has no such method"
            )
        # A method that is bound again loses the first of its own endpoints, as with Jina.
        own = next((known for known, method in found.items() if method == name), None)
        if own is not None:
            del found[own]
        found[endpoint] = name
    methods = []
    for endpoint, name in found.items():
        # Looked up again: a subclass may override a method without decorating it.
        function = getattr(cls, name)
        inherited: list[Any] = [vars(base).get(name) for base in cls.__mro__]
        batching = next((own.__flow_batching__ for own in inherited if hasattr(own, "__flow_batching__")), None)
        methods.append(Binding(endpoint, name, function, batching))
    return methods


def _check_signature(method: Any) -> None:
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


def _takes_keywords(function: Any) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(it.kind is it.VAR_KEYWORD for it in parameters)
