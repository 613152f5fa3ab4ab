"""A post: its options, its batches, and what happens to each reply."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Optional

from flow_serve import _inputs, _trace_context
from flow_serve._docarray import Reader
from flow_serve._options import refuse_unknown
from flow_serve._progress import ProgressBar
from flow_serve._response import Response
from flow_serve.exceptions import BadClientCallback, BadClientInput, BadServer, NotSupportedError

if TYPE_CHECKING:
    from flow_serve import _native
    from flow_serve._client import BaseClient

logger = logging.getLogger("flow_serve")

Callback = Optional[Callable[[Response], Any]]

#: What `post` takes besides its named arguments.
POST_OPTIONS = ("timeout", "metadata", "compression", "total_docs")


class Plan:
    """A post that has not begun: its options, checked."""

    def __init__(
        self,
        client: BaseClient,
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
    ) -> None:
        if options.pop("credentials", None) is not None:
            raise NotSupportedError("`credentials` are objects of the gRPC library; use `tls_…` and `api_key` of `Client`")
        refuse_unknown("post", options, POST_OPTIONS)
        self.client = client
        self.inputs = _inputs.opened(inputs)
        self.callbacks = (on_done, on_error, on_always)
        self.request_size = request_size
        self.continue_on_error = continue_on_error
        self.return_responses = return_responses
        self.returns = on_done is None and on_always is None
        self.reader = Reader(return_type)
        self.attempts = max(max_attempts, 1)
        self.backoff = (initial_backoff, backoff_multiplier, max_backoff)
        total = options.get("total_docs")
        count = _inputs.count_of(self.inputs if total is None else range(total), request_size)
        self.progress = ProgressBar(count, show_progress)
        window = prefetch or client._prefetch
        self.exchange_options: dict[str, Any] = {
            "endpoint": on,
            "target": target_executor or None,
            "parameters": _parameters(parameters),
            "prefetch": window if window and window > 0 else None,
            "in_order": results_in_order,
            "timeout": options.get("timeout"),
            "compression": _compression(options.get("compression")),
            "retries": self.attempts - 1,
            "one_by_one": not stream,
            "metadata": _metadata(options.get("metadata")),
        }

    def exchange(self) -> Any:
        """Connects, and begins."""
        wait, factor, wait_max = self.backoff
        return self.client._connected(self.attempts, wait, factor, wait_max).exchange(self.exchange_options)

    def stream(self) -> _native.DocumentStream:
        """Connects, and sends the one document of a stream."""
        batch = next(_inputs.batches(self.inputs, 2))
        if len(batch) != 1:
            raise BadClientInput(f"a stream begins with one document; `inputs` has {'none' if not batch else 'several'}")
        document = self.documents(batch)[0]
        stream: _native.DocumentStream = self.client._connected().stream(self.exchange_options, document)
        return stream

    def response(self, reply: _native.Reply) -> Response:
        """A reply as a response, after the callbacks."""
        response = Response(reply, self.reader.read)
        self.progress.update()
        self._call_back(response)
        return response

    def documents(self, batch: list[Any]) -> Any:
        """A batch of inputs as documents."""
        self.reader.saw(batch)
        return _inputs.documents(batch)

    def _call_back(self, response: Response) -> None:
        on_done, on_error, on_always = self.callbacks
        if response.is_error:
            if on_error:
                self._call(on_error, response)
            elif self.continue_on_error:
                logger.error("server error: %s", response.header)
            else:
                raise BadServer(response.header)
        elif on_done:
            self._call(on_done, response)
        if on_always:
            self._call(on_always, response)

    def _call(self, callback: Callable[[Response], Any], response: Response) -> None:
        try:
            callback(response)
        except Exception as error:
            name = getattr(callback, "__name__", repr(callback))
            message = f"uncaught exception in callback {name}(): {error!r}"
            if not self.continue_on_error:
                raise BadClientCallback(message) from error
            logger.error(message)


def _parameters(parameters: Any) -> str:
    for method in ("model_dump", "dict"):
        if not isinstance(parameters, Mapping) and hasattr(parameters, method):
            parameters = getattr(parameters, method)()
    if not parameters:
        return '{"__results__": {}}'
    try:
        return json.dumps(dict(parameters), default=_plain)
    except (TypeError, ValueError) as error:
        raise BadClientInput(f"`parameters` cannot be sent: {error}") from error


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a `{type(value).__name__}` is not a number, a text, a list or a mapping")


def _compression(name: Any) -> str | None:
    if name is None or str(name).lower() == "nocompression":
        return None
    if str(name).lower() not in ("gzip", "deflate"):
        raise ValueError(f"`compression` is `{name}`; write `Gzip`, `Deflate` or `NoCompression`")
    return str(name).lower()


def _metadata(given: Any) -> list[tuple[str, str]]:
    """The metadata that is given, and that of the current trace."""
    pairs = [(str(key), str(value)) for key, value in _pairs(given)]
    return pairs + _trace_context.entries(pairs)


def _pairs(metadata: Any) -> Any:
    return metadata.items() if isinstance(metadata, Mapping) else metadata or ()
