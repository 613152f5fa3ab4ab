"""Replies: the documents of one request, and what the flow says about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from flow_serve import _native

SUCCESS = 0
ERROR = 1


class Timestamp:
    """A point in time, in the form of protobuf."""

    __slots__ = ("seconds", "nanos")

    def __init__(self, seconds: int = 0, nanos: int = 0) -> None:
        self.seconds = seconds
        self.nanos = nanos

    def ToMilliseconds(self) -> int:
        return self.seconds * 1000 + self.nanos // 1_000_000

    def ToNanoseconds(self) -> int:
        return self.seconds * 1_000_000_000 + self.nanos

    def __repr__(self) -> str:
        return f"seconds: {self.seconds} nanos: {self.nanos}"


class ExceptionInfo:
    """The exception of an executor."""

    __slots__ = ("name", "args", "stacks", "executor")

    def __init__(self, name: str, args: list[str], stacks: list[str], executor: str) -> None:
        self.name = name
        self.args = args
        self.stacks = stacks
        self.executor = executor


class Status:
    """Whether a request succeeded, and if not, why."""

    __slots__ = ("code", "description", "exception")

    SUCCESS = SUCCESS
    ERROR = ERROR

    def __init__(self, code: int, description: str, exception: ExceptionInfo) -> None:
        self.code = code
        self.description = description
        self.exception = exception


class Header:
    """The header of a reply."""

    __slots__ = ("request_id", "status", "exec_endpoint", "target_executor")

    def __init__(self, request_id: str, status: Status, exec_endpoint: str, target_executor: str) -> None:
        self.request_id = request_id
        self.status = status
        self.exec_endpoint = exec_endpoint
        self.target_executor = target_executor

    def __str__(self) -> str:
        lines = [f"request_id: {_quoted(self.request_id)}"]
        if self.status.code != SUCCESS:
            lines += _status_lines(self.status)
        if self.exec_endpoint:
            lines.append(f"exec_endpoint: {_quoted(self.exec_endpoint)}")
        if self.target_executor:
            lines.append(f"target_executor: {_quoted(self.target_executor)}")
        return "\n".join(lines) + "\n"

    __repr__ = __str__


class Route:
    """When an executor worked on a request."""

    __slots__ = ("executor", "start_time", "end_time", "status")

    def __init__(self, executor: str, start: tuple[int, int], end: tuple[int, int], status: Status) -> None:
        self.executor = executor
        self.start_time = Timestamp(*start)
        self.end_time = Timestamp(*end)
        self.status = status


class Data:
    """The documents of a reply, under the name that Jina's replies have for them."""

    __slots__ = ("_response",)

    def __init__(self, response: Response) -> None:
        self._response = response

    @property
    def docs(self) -> Any:
        return self._response.docs


class Response:
    """A reply. Its documents and its header are decoded when they are asked for."""

    __slots__ = ("_reply", "_read_docs", "_docs", "_header", "_parameters")

    def __init__(self, reply: _native.Reply, read_docs: Callable[[_native.Reply], Any]) -> None:
        self._reply = reply
        self._read_docs = read_docs
        self._docs: Any = None
        self._header: Header | None = None
        self._parameters: dict[str, Any] | None = None

    @property
    def docs(self) -> Any:
        """The documents."""
        if self._docs is None:
            self._docs = self._read_docs(self._reply)
        return self._docs

    @property
    def data(self) -> Data:
        """The documents, as ``data.docs``."""
        return Data(self)

    @property
    def is_error(self) -> bool:
        """Whether the request failed."""
        return self._reply.is_error

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return self._reply.request_id

    @property
    def header(self) -> Header:
        """The header."""
        if self._header is None:
            _, endpoint, target, status = self._reply.header()
            self._header = Header(self.request_id, _status(status), endpoint, target)
        return self._header

    @property
    def status(self) -> Status:
        """Whether the request succeeded, and if not, why."""
        return self.header.status

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the request, and under ``__results__`` what executors returned besides documents."""
        if self._parameters is None:
            self._parameters = self._reply.parameters()
        return self._parameters

    @property
    def results(self) -> dict[str, Any]:
        """What executors returned besides documents, by their names."""
        results: dict[str, Any] = self.parameters.get("__results__", {})
        return results

    @property
    def routes(self) -> list[Route]:
        """When the gateway and each executor worked on the request; the gateway is the first."""
        routes = self._reply.routes()
        return [Route(name, start, end, _status(status)) for name, start, end, status in routes]

    @property
    def last_executor(self) -> str | None:
        """The name of the executor that was the last to work on the request."""
        routes = self.routes
        return routes[-1].executor if routes else None

    def to_dict(self) -> dict[str, Any]:
        """The reply as a mapping that JSON can hold."""
        status = self.status
        header: dict[str, Any] = {"request_id": self.request_id, "exec_endpoint": self.header.exec_endpoint}
        if status.code != SUCCESS:
            header["status"] = {"code": "ERROR", "description": status.description}
        routes = [{"executor": route.executor} for route in self.routes]
        return {"header": header, "parameters": self.parameters, "routes": routes, "data": self.docs.to_list()}

    def __repr__(self) -> str:
        return f"<Response {self.request_id}: {'failed' if self.is_error else 'succeeded'}>"


def _status(parts: tuple[int, str, str, list[str], list[str], str]) -> Status:
    code, description, name, args, stacks, executor = parts
    return Status(code, description, ExceptionInfo(name, args, stacks, executor))


def _status_lines(status: Status) -> list[str]:
    exception = status.exception
    lines = ["status {", "  code: ERROR", f"  description: {_quoted(status.description)}", "  exception {"]
    lines.append(f"    name: {_quoted(exception.name)}")
    lines += [f"    args: {_quoted(text)}" for text in exception.args]
    lines += [f"    stacks: {_quoted(text)}" for text in exception.stacks]
    lines.append(f"    executor: {_quoted(exception.executor)}")
    return [*lines, "  }", "}"]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
