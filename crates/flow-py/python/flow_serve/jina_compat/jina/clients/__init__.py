"""Jina's client."""

from flow_serve import Client

__all__ = ["Client"]
