"""Metrics of an executor's own, with the methods of OpenTelemetry's meter.

They are exported with those of the runtime: to Prometheus, and to a collector. Where nothing is measured, they do nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ._logger import Logger
from ._native import ExecutorMonitor

#: What Prometheus appends to the name of a metric in these units.
_UNITS = {"s": "_seconds", "ms": "_milliseconds", "By": "_bytes", "1": ""}

#: Series of a metric, besides one for all further labels. The runtime has the same limit.
_SERIES_MAX = 200

#: Labels that metrics have already.
_TAKEN = frozenset(("runtime_name", "le", "quantile", "otel_metric_overflow"))

Labels = tuple[tuple[str, str], ...]

_OVERFLOW: Labels = (("otel_metric_overflow", "true"),)


def metric_name(name: str, unit: str, suffix: str = "") -> str:
    """The name in Prometheus: letters, digits and `_`, with the unit, and the suffix of its kind."""
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    plain = plain.removesuffix(suffix) if suffix else plain
    of_unit = _UNITS.get(unit, "")
    if of_unit and not plain.endswith(of_unit):
        plain += of_unit
    return plain + suffix


class _Instrument:
    """A metric of any kind; one native metric for each set of attributes."""

    def __init__(self, make: Callable[[str, str, list[tuple[str, str]]], Any] | None, name: str, help_text: str) -> None:
        self.name = name
        self._make, self._help = make, help_text or name
        self._series: dict[Labels, Any] = {}
        # A wrong name is an error where the instrument is made.
        if make is not None:
            self._series[()] = make(name, self._help, [])

    def _of(self, attributes: Mapping[str, Any] | None) -> Any:
        if self._make is None:
            return None
        labels: Labels = tuple(sorted({_label(key): str(value) for key, value in attributes.items()}.items())) if attributes else ()
        metric = self._series.get(labels)
        if metric is None:
            if len(self._series) >= _SERIES_MAX:
                # The runtime has one metric for all further labels, which is looked up once.
                labels = _OVERFLOW
            metric = self._series.get(labels) or self._make(self.name, self._help, list(labels))
            self._series[labels] = metric
        return metric

    def _refuse(self, amount: float) -> None:
        Logger("meter").warning("%s: a negative amount is ignored: %s", self.name, amount)


def _label(key: str) -> str:
    """The label of an attribute. One that Prometheus or the runtime uses itself gets a prefix."""
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", str(key))
    is_taken = plain in _TAKEN or plain.startswith("__") or plain[:1].isdigit() or not plain
    return f"attribute_{plain}" if is_taken else plain


class Counter(_Instrument):
    """A sum that only grows."""

    def add(self, amount: float, attributes: Mapping[str, Any] | None = None, context: Any = None) -> None:
        if amount < 0:
            return self._refuse(amount)
        metric = self._of(attributes)
        if metric is not None:
            metric.add(amount)
        return None


class UpDownCounter(_Instrument):
    """A sum that may also become smaller."""

    def add(self, amount: float, attributes: Mapping[str, Any] | None = None, context: Any = None) -> None:
        metric = self._of(attributes)
        if metric is not None:
            metric.add(amount)


class Gauge(_Instrument):
    """The last of some numbers."""

    def set(self, amount: float, attributes: Mapping[str, Any] | None = None, context: Any = None) -> None:
        metric = self._of(attributes)
        if metric is not None:
            metric.set(amount)


class Histogram(_Instrument):
    """How large numbers are."""

    def record(self, amount: float, attributes: Mapping[str, Any] | None = None, context: Any = None) -> None:
        if amount < 0:
            return self._refuse(amount)
        metric = self._of(attributes)
        if metric is not None:
            metric.record(amount)
        return None


class Meter:
    """Makes instruments. Make each once, in `__init__`."""

    def __init__(self, metrics: ExecutorMonitor | None) -> None:
        self._metrics = metrics

    def create_counter(self, name: str, unit: str = "", description: str = "") -> Counter:
        make = self._metrics.counter if self._metrics else None
        return Counter(make, metric_name(name, unit, "_total"), description)

    def create_up_down_counter(self, name: str, unit: str = "", description: str = "") -> UpDownCounter:
        make = self._metrics.gauge if self._metrics else None
        return UpDownCounter(make, metric_name(name, unit), description)

    def create_gauge(self, name: str, unit: str = "", description: str = "") -> Gauge:
        make = self._metrics.gauge if self._metrics else None
        return Gauge(make, metric_name(name, unit), description)

    def create_histogram(self, name: str, unit: str = "", description: str = "", **_: Any) -> Histogram:
        make = self._metrics.histogram if self._metrics else None
        return Histogram(make, metric_name(name, unit), description)

    def create_observable_counter(self, name: str, *_: Any, **__: Any) -> NoReturn:
        _not_observable(name)

    def create_observable_up_down_counter(self, name: str, *_: Any, **__: Any) -> NoReturn:
        _not_observable(name)

    def create_observable_gauge(self, name: str, *_: Any, **__: Any) -> NoReturn:
        _not_observable(name)


def _not_observable(name: str) -> NoReturn:
    raise NotImplementedError(
        f"`{name}`: observable instruments are not supported, because reading metrics must not wait for Python; "
        "change a value with `create_up_down_counter` or `create_gauge` where it changes"
    )
