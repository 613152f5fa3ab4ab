"""The decorators of executors."""

from flow_serve import dynamic_batching, monitor, requests

__all__ = ["dynamic_batching", "monitor", "requests"]
