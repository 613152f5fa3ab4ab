"""The client of flows: sends documents, and returns what comes back."""

from __future__ import annotations

import asyncio as aio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from flow_serve import _inputs, _trace_context
from flow_serve._endpoints import Endpoints
from flow_serve._options import refuse_unknown
from flow_serve._plan import Callback, Plan
from flow_serve._response import Response
from flow_serve.exceptions import BadClientInput, BadServerFlow, NotSupportedError

if TYPE_CHECKING:
    from flow_serve import _native

logger = logging.getLogger("flow_serve")

#: Options of Jina's client that change nothing here: its logging, and its pool of HTTP sessions.
WITHOUT_EFFECT = ("log_config", "suppress_root_logging", "reuse_session", "name", "runtime_name")

#: Options of Jina's client that are refused, with the reason.
REFUSED = {
    "metrics": "clients export no OpenTelemetry metrics",
    "metrics_exporter_host": "clients export no OpenTelemetry metrics",
    "metrics_exporter_port": "clients export no OpenTelemetry metrics",
    "traces_exporter_host": "clients make no spans; their calls belong to the current span, which your own OpenTelemetry exports",
    "traces_exporter_port": "clients make no spans; their calls belong to the current span, which your own OpenTelemetry exports",
    "proxy": "clients connect directly and never through a proxy",
    "grpc_channel_options": "clients do not use the gRPC library that these options are for; messages have no limit",
}

KNOWN = (
    "asyncio",
    "host",
    "port",
    "protocol",
    "prefetch",
    "tls",
    "tls_ca",
    "tls_certificate",
    "tls_key",
    "tls_server_name",
    "api_key",
)

#: Failures for which Jina's clients raise `ConnectionError`.
CONNECTION_CODES = ("unavailable", "lost", "deadline_exceeded")


class BaseClient(Endpoints):
    """What both kinds of clients have in common: where they connect to, and how."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        protocol: Any = "grpc",
        asyncio: bool = False,
        tls: bool = False,
        prefetch: int | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_certificate: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        tls_server_name: str | None = None,
        api_key: str | None = None,
        **options: Any,
    ) -> None:
        for name, reason in REFUSED.items():
            if options.pop(name, None):
                raise NotSupportedError(f"`{name}` is not supported: {reason}")
        if options.pop("tracing", None):
            _trace_context.check_installed()
        options = {name: value for name, value in options.items() if name not in WITHOUT_EFFECT}
        refuse_unknown("Client", options, KNOWN)
        del asyncio
        self._url = _url(host, port, protocol, tls)
        self._prefetch = prefetch
        paths = {"ca": tls_ca, "certificate": tls_certificate, "key": tls_key}
        self._security: dict[str, str | None] = {
            **{name: None if path is None else os.fspath(path) for name, path in paths.items()},
            "server_name": tls_server_name,
            "api_key": api_key,
        }
        self._connection: _native.Connection | None = None
        self._pid = 0
        self._lock = threading.Lock()

    @property
    def client(self: Any) -> Any:
        """The client itself."""
        return self

    @property
    def url(self) -> str:
        """Where the client connects to."""
        return self._url

    def _connected(self, attempts: int = 1, wait: float = 0.5, factor: float = 1.5, wait_max: float = 2.0) -> Any:
        """The connection, made at its first use. All threads share it; a forked process makes its own."""
        from flow_serve import _native

        with self._lock:
            attempt = 1
            while self._connection is None or self._pid != os.getpid():
                try:
                    connection = _native.Connection(self._url, self._security)
                except ConnectionError:
                    if attempt >= attempts:
                        raise
                    time.sleep(min(wait * factor ** (attempt - 1), wait_max))
                    attempt += 1
                else:
                    self._connection, self._pid = connection, os.getpid()
            return self._connection

    def _is_flow_ready(self, timeout: float | None = None, **_ignored: Any) -> bool:
        """Sends an empty request through the flow."""
        try:
            failure: str | None = self._connected().dry_run(timeout)
        except (ConnectionError, _call_error()) as error:
            # The failure of a call is its code and its cause.
            logger.error("the flow at %s is not ready: %s", self._url, error.args[-1] if error.args else error)
            return False
        if failure is not None:
            logger.error("the flow at %s is not ready: %s", self._url, failure)
        return failure is None

    def mutate(self, *_arguments: Any, **_options: Any) -> NoReturn:
        """Is not supported."""
        raise NotSupportedError("there is no GraphQL; use `post`, or the gateway's HTTP routes")

    def endpoints(self) -> list[str]:
        """The names of the endpoints that the executors of the flow offer, such as ``/encode``."""
        endpoints: list[str] = self._connected().endpoints()
        return endpoints


class Client(BaseClient):
    """A client whose methods block until all replies are there.

    With ``asyncio=True`` the object is an :class:`AsyncClient`. Threads can share a client, and post at the same time. It
    connects at its first use.

    :param host: name or address of the gateway, or a URL such as ``grpcs://flow.example.com:443``
    :param port: the gateway's port
    :param protocol: ``grpc`` only, which every port of a gateway answers
    :param asyncio: whether posts are asynchronous iterators
    :param tls: whether the gateway has a certificate; a host that begins with ``grpcs://`` says so too
    :param prefetch: requests in progress, 64 by default; ``post`` can have its own
    :param tls_ca: a PEM file with certificates that are trusted instead of those of the system
    :param tls_certificate: a PEM file with the certificate by which the client proves who it is
    :param tls_key: a PEM file with its private key
    :param tls_server_name: the name in the gateway's certificate, if it is not that of the host
    :param api_key: the API key or the JSON Web Token to send
    """

    def __new__(cls, *, asyncio: bool = False, **options: Any) -> Any:
        return AsyncClient(**options) if asyncio else super().__new__(cls)

    def post(
        self,
        on: str,
        inputs: Any = None,
        on_done: Callback = None,
        on_error: Callback = None,
        on_always: Callback = None,
        parameters: Any = None,
        target_executor: str | None = None,
        request_size: int = 100,
        show_progress: bool = False,
        continue_on_error: bool = False,
        return_responses: bool = False,
        max_attempts: int = 1,
        initial_backoff: float = 0.5,
        max_backoff: float = 2,
        backoff_multiplier: float = 1.5,
        results_in_order: bool = False,
        stream: bool = True,
        prefetch: int | None = None,
        return_type: Any = None,
        **options: Any,
    ) -> Any:
        """Sends documents to an endpoint.

        The inputs are a document, an array or another iterable of documents, a generator, an asynchronous generator, or a
        function that returns one of them. They are taken as the flow takes requests, and can be endless.

        :param on: the endpoint, such as ``/encode``
        :param inputs: the documents; without them, the endpoint is called once with none
        :param on_done: called with the response to each request that succeeded
        :param on_error: called with the response to each request that failed
        :param on_always: called with each response
        :param parameters: parameters for the executors: a mapping, or an object of pydantic
        :param target_executor: a regular expression; executors whose names do not begin with a match pass documents on
        :param request_size: documents of one request; 0 for all in one
        :param show_progress: whether to draw a progress bar
        :param continue_on_error: whether failures are only logged
        :param return_responses: whether responses are returned rather than their documents
        :param max_attempts: number of tries, also of connecting; more than one may run a request twice
        :param initial_backoff: seconds before the second try
        :param max_backoff: most seconds between two tries
        :param backoff_multiplier: by what each wait is longer than the one before
        :param results_in_order: whether documents come back in the order of the inputs
        :param stream: whether all requests share one call of gRPC
        :param prefetch: requests in progress
        :param return_type: the array that is returned, such as ``DocList[MyDoc]`` of docarray
        :param timeout: seconds that the whole post may take
        :param metadata: further gRPC metadata: a mapping, or pairs
        :param compression: ``"Gzip"`` or ``"Deflate"``
        :return: the documents that came back, or the responses; ``None`` with ``on_done`` or ``on_always``
        :raises ConnectionError: the flow cannot be reached, or does not answer in time
        :raises BadServerFlow: the gateway refuses the call
        :raises BadServer: an executor failed; not with ``continue_on_error`` or ``on_error``
        :raises BadClientInput: the inputs are no documents, or too large
        :raises BadClientCallback: a callback failed
        """
        plan = Plan(
            self,
            on,
            inputs,
            on_done,
            on_error,
            on_always,
            parameters,
            target_executor,
            request_size,
            show_progress,
            continue_on_error,
            return_responses,
            max_attempts,
            initial_backoff,
            max_backoff,
            backoff_multiplier,
            results_in_order,
            stream,
            prefetch,
            return_type,
            **options,
        )
        with plan.progress:
            if not plan.returns:
                for _ in _responses(plan):
                    pass
                return None
            responses = list(_responses(plan))
        return responses if plan.return_responses else plan.reader.joined(responses)

    def stream_doc(
        self,
        on: str,
        inputs: Any = None,
        parameters: Any = None,
        target_executor: str | None = None,
        return_type: Any = None,
        **options: Any,
    ) -> Iterator[Any]:
        """Sends one document to an endpoint whose method is a generator, and yields the documents as they are made.

        The flow has exactly one executor.

        :param on: the endpoint
        :param inputs: the document
        :param parameters: parameters for the executor: a mapping, or an object of pydantic
        :param return_type: the class of the documents, such as ``MyDoc`` of docarray
        :param timeout: seconds that the whole stream may take
        :param metadata: further gRPC metadata: a mapping, or pairs
        :raises BadClientInput: ``inputs`` is not exactly one document
        :raises BadServerFlow: the gateway refuses the call, or the method failed
        :raises ConnectionError: the flow cannot be reached, or does not answer in time
        """
        plan = Plan(self, on, inputs, None, None, None, parameters, target_executor, return_type=return_type, **options)
        try:
            documents = plan.stream()
            while (document := documents.step()) is not None:
                yield plan.reader.document(document)
        except _call_error() as error:
            _raise(error)

    def is_flow_ready(self, timeout: float | None = None, **options: Any) -> bool:
        """Whether an empty request gets through the whole flow, within ``timeout`` seconds. The reason why not is logged."""
        return self._is_flow_ready(timeout, **options)

    dry_run = is_flow_ready

    def profiling(self, show_table: bool = True) -> dict[str, float]:
        """How the time of one request divides, in milliseconds, by name. ``show_table`` prints it too."""
        started = time.perf_counter()
        response = self.post("/", _empty_document(), return_responses=True)[0]
        return _profile(response, time.perf_counter() - started, show_table)


class AsyncClient(BaseClient):
    """A client for asynchronous programs: its posts are asynchronous iterators."""

    async def post(
        self,
        on: str,
        inputs: Any = None,
        on_done: Callback = None,
        on_error: Callback = None,
        on_always: Callback = None,
        parameters: Any = None,
        target_executor: str | None = None,
        request_size: int = 100,
        show_progress: bool = False,
        continue_on_error: bool = False,
        return_responses: bool = False,
        max_attempts: int = 1,
        initial_backoff: float = 0.5,
        max_backoff: float = 2,
        backoff_multiplier: float = 1.5,
        results_in_order: bool = False,
        stream: bool = True,
        prefetch: int | None = None,
        return_type: Any = None,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Sends documents as :meth:`Client.post` does, and yields the documents of each reply, or the responses."""
        plan = Plan(
            self,
            on,
            inputs,
            on_done,
            on_error,
            on_always,
            parameters,
            target_executor,
            request_size,
            show_progress,
            continue_on_error,
            return_responses,
            max_attempts,
            initial_backoff,
            max_backoff,
            backoff_multiplier,
            results_in_order,
            stream,
            prefetch,
            return_type,
            **options,
        )
        with plan.progress:
            async for response in _async_responses(plan):
                yield response if plan.return_responses else plan.reader.array_of(response)

    async def stream_doc(
        self,
        on: str,
        inputs: Any = None,
        parameters: Any = None,
        target_executor: str | None = None,
        return_type: Any = None,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Streams documents as :meth:`Client.stream_doc` does."""
        plan = Plan(self, on, inputs, None, None, None, parameters, target_executor, return_type=return_type, **options)
        try:
            documents = await _in_thread(plan.stream)
            loop = aio.get_running_loop()
            while (document := await _stepped(documents, loop)) is not None:
                yield plan.reader.document(document)
        except _call_error() as error:
            _raise(error)

    async def is_flow_ready(self, timeout: float | None = None, **options: Any) -> bool:
        """Whether a request gets through the whole flow."""
        ready: bool = await _in_thread(lambda: self._is_flow_ready(timeout, **options))
        return ready

    dry_run = is_flow_ready

    async def profiling(self, show_table: bool = True) -> dict[str, float]:
        """How the time of one request divides, in milliseconds."""
        started = time.perf_counter()
        responses = [each async for each in self.post("/", _empty_document(), return_responses=True)]
        return _profile(responses[0], time.perf_counter() - started, show_table)


def _responses(plan: Plan) -> Iterator[Response]:
    """Sends the batches of a plan, and yields the responses. The caller's thread takes the inputs and runs the callbacks."""
    batches = _inputs.batches(plan.inputs, plan.request_size)
    exchange = plan.exchange()
    try:
        while (event := exchange.step()) is not False:
            if event is True:
                batch = next(batches, None)
                exchange.finish() if batch is None else exchange.send(plan.documents(batch))
            else:
                yield plan.response(event)
    except _call_error() as error:
        _raise(error)
    finally:
        exchange.cancel()


async def _async_responses(plan: Plan) -> AsyncIterator[Response]:
    """The same without blocking the loop."""
    loop = aio.get_running_loop()
    next_batch = _next_batch(plan)
    exchange = await _in_thread(plan.exchange)
    try:
        while True:
            event = exchange.try_step()
            if event is None:
                event = await _stepped(exchange, loop)
            if event is False:
                return
            if event is True:
                batch = await next_batch()
                exchange.finish() if batch is None else exchange.send(plan.documents(batch))
            else:
                yield plan.response(event)
    except _call_error() as error:
        _raise(error)
    finally:
        exchange.cancel()


def _next_batch(plan: Plan) -> Callable[[], Any]:
    if _inputs.is_async(plan.inputs):
        items = _inputs.async_batches(plan.inputs, plan.request_size)

        async def awaited() -> Any:
            try:
                return await items.__anext__()
            except StopAsyncIteration:
                return None

        return awaited
    batches = _inputs.batches(plan.inputs, plan.request_size)

    async def taken() -> Any:
        return next(batches, None)

    return taken


def _stepped(source: Any, loop: aio.AbstractEventLoop) -> aio.Future[Any]:
    """The next event of an exchange, or document of a stream, which a thread of Rust waits for."""
    future: aio.Future[Any] = loop.create_future()

    def settle(event: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(event)

    def notify(event: Any, error: BaseException | None) -> None:
        try:
            loop.call_soon_threadsafe(settle, event, error)
        except RuntimeError:
            pass  # The loop was closed, so no task waits.

    source.step_then(notify)
    return future


async def _in_thread(function: Callable[[], Any]) -> Any:
    return await aio.get_running_loop().run_in_executor(None, function)


def _call_error() -> type[Exception]:
    from flow_serve import _native

    return _native.CallError


def _raise(error: Any) -> NoReturn:
    """Raises the exception that Jina's clients raise for a failed call."""
    code, message = error.args
    if code in CONNECTION_CODES:
        raise ConnectionError(message) from None
    if code == "too_large":
        raise BadClientInput(message) from None
    raise BadServerFlow(message) from None


def _url(host: str, port: int | None, protocol: Any, tls: bool) -> str:
    scheme, separator, rest = host.rpartition("://")
    scheme = scheme.lower() if separator else str(getattr(protocol, "name", protocol)).lower()
    if not separator and isinstance(protocol, (list, tuple)) and len(protocol) == 1:
        scheme = str(protocol[0]).lower()
    if scheme not in ("grpc", "grpcs"):
        raise NotSupportedError(
            f"clients speak gRPC, not `{scheme}`: flows answer gRPC on the same port as HTTP and WebSocket, so leave "
            "`protocol` out; for HTTP itself, the book's page `HTTP and WebSocket` has examples"
        )
    name, colon, own_port = rest.rstrip("/").rpartition(":")
    if colon and own_port.isdigit():
        rest, port = name, int(own_port)
    if port is None:
        raise ValueError("the client needs the port of a flow, such as `Client(port=54321)`")
    address = "127.0.0.1" if rest in ("0.0.0.0", "") else rest
    return f"{'grpcs' if tls or scheme == 'grpcs' else 'grpc'}://{address}:{port}"


def _empty_document() -> Any:
    from flow_serve._native import Document

    return Document()


def _profile(response: Response, seconds: float, show_table: bool) -> dict[str, float]:
    elapsed = seconds * 1000
    took = {route.executor: _milliseconds(route) for route in response.routes}
    gateway = took.pop("gateway", elapsed)
    rows = {
        "Roundtrip": elapsed,
        "Client-server network": elapsed - gateway,
        "Server": gateway,
        "Gateway-executors network": gateway - sum(took.values()),
        **took,
    }
    if show_table:
        width = max(map(len, rows))
        for name, time_ms in rows.items():
            print(f"{name:<{width}}  {time_ms:8.1f} ms")
    return rows


def _milliseconds(route: Any) -> float:
    nanoseconds: int = route.end_time.ToNanoseconds() - route.start_time.ToNanoseconds()
    return max(nanoseconds, 0) / 1e6
