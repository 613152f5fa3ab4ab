"""Spans of an executor's own, with the methods of OpenTelemetry's tracer.

The runtime makes, samples and exports them beside its own spans. Where a call is not recorded, they do nothing.
"""

from __future__ import annotations

import contextlib
import contextvars
import traceback
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional

from ._native import TracingContext, tracing_context

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._native import NativeSpan

#: The innermost span that Python code began, or the call's in a coroutine, which runs on another thread than its call.
INNERMOST: contextvars.ContextVar[Optional[TracingContext]] = contextvars.ContextVar("innermost", default=None)


def current() -> TracingContext | None:
    """The span within which others begin."""
    return INNERMOST.get() or tracing_context()


class SpanContext:
    """The ids of a span."""

    __slots__ = ("is_remote", "is_valid", "span_id", "trace_flags", "trace_id")

    def __init__(self, context: TracingContext | None) -> None:
        self.trace_id = int(context.trace_id, 16) if context else 0
        self.span_id = int(context.span_id, 16) if context else 0
        self.trace_flags = 1 if context else 0
        self.is_valid = context is not None
        self.is_remote = False


class Span:
    """Something that takes time. It ends with `end()`, or at the end of a `with` block."""

    __slots__ = ("_native", "_within", "_records", "_fails")

    def __init__(
        self, name: str, parent: TracingContext | None, record_exception: bool = True, set_status_on_exception: bool = True
    ) -> None:
        begun = parent.begin(name) if parent is not None else None
        self._native: NativeSpan | None = begun[0] if begun else None
        self._within: TracingContext | None = begun[1] if begun else None
        self._records, self._fails = record_exception, set_status_on_exception

    def is_recording(self) -> bool:
        return self._native is not None and self._native.is_recording()

    def get_span_context(self) -> SpanContext:
        return SpanContext(self._within)

    def set_attribute(self, key: str, value: Any) -> None:
        if self._native is not None:
            self._native.set(key, value)

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        for key, value in attributes.items():
            self.set_attribute(key, value)

    def add_event(self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None) -> None:
        """Adds something that happened now; `timestamp` has no effect."""
        if self._native is not None:
            self._native.add_event(name, list((attributes or {}).items()))

    def record_exception(
        self,
        exception: BaseException,
        attributes: Mapping[str, Any] | None = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        kind = type(exception)
        stack = "".join(traceback.format_exception(kind, exception, exception.__traceback__))
        of_exception = {
            "exception.type": f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__qualname__,
            "exception.message": str(exception),
            "exception.stacktrace": stack,
            "exception.escaped": str(escaped),
        }
        self.add_event("exception", {**of_exception, **(attributes or {})})

    def update_name(self, name: str) -> None:
        if self._native is not None:
            self._native.rename(name)

    def set_status(self, status: Any, description: str | None = None) -> None:
        """Takes OpenTelemetry's `Status` and `StatusCode`. Only an error is noted."""
        code = getattr(status, "status_code", status)
        if self._native is not None and getattr(code, "name", str(code)).upper() == "ERROR":
            self._native.fail(description or getattr(status, "description", None) or "")

    def end(self, end_time: int | None = None) -> None:
        """Ends the span now; `end_time` has no effect."""
        if self._native is not None:
            self._native.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, exception: BaseException | None, trace: object) -> None:
        self._note(exception)
        self.end()

    def _note(self, exception: BaseException | None) -> None:
        # An iterator or a task that is abandoned has not failed.
        if not isinstance(exception, Exception):
            return
        if self._records:
            self.record_exception(exception, escaped=True)
        if self._fails and self._native is not None:
            self._native.fail(f"{type(exception).__name__}: {exception}")


class Tracer:
    """Makes spans, within the one that is current or the one that `context` names: a method's `tracing_context`."""

    def start_span(
        self,
        name: str,
        context: Any = None,
        kind: Any = None,
        attributes: Mapping[str, Any] | None = None,
        links: Any = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
    ) -> Span:
        """Begins a span, which is not current. `kind`, `links` and `start_time` have no effect."""
        parent = context if isinstance(context, TracingContext) else current()
        span = Span(name, parent, record_exception, set_status_on_exception)
        span.set_attributes(attributes or {})
        return span

    @contextlib.contextmanager
    def start_as_current_span(
        self,
        name: str,
        context: Any = None,
        kind: Any = None,
        attributes: Mapping[str, Any] | None = None,
        links: Any = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
        end_on_exit: bool = True,
    ) -> Iterator[Span]:
        """Begins a span that is current in a `with` block, or in the function that it decorates."""
        span = self.start_span(
            name, context, kind, attributes, links, start_time, record_exception, set_status_on_exception
        )
        token = INNERMOST.set(span._within or INNERMOST.get())
        try:
            yield span
        except BaseException as error:
            span._note(error)
            raise
        finally:
            with contextlib.suppress(ValueError):
                # An asynchronous generator may end in another context than it began in.
                INNERMOST.reset(token)
            if end_on_exit:
                span.end()
