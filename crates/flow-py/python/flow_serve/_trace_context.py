"""The trace that a call of a client belongs to: that of the current span of OpenTelemetry, if the process has one."""

from __future__ import annotations

import importlib.util
import sys

from flow_serve.exceptions import NotSupportedError


def check_installed() -> None:
    """Refuses `tracing=True` where there is no OpenTelemetry whose spans a call could belong to."""
    if importlib.util.find_spec("opentelemetry") is None:
        raise NotSupportedError(
            "`tracing` needs the package `opentelemetry-api`: calls belong to its current span; install it, or leave `tracing` out"
        )


def entries(given: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The metadata of the current trace and baggage, without the keys that are given."""
    # A process that has not imported the package has no current span, and does not wait for the import.
    if "opentelemetry.trace" not in sys.modules and "opentelemetry.baggage" not in sys.modules:
        return []
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    keys = {key.lower() for key, _ in given}
    return [(key.lower(), value) for key, value in carrier.items() if key.lower() not in keys]
