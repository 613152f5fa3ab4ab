"""Jina's requests and responses."""

from flow_serve import Response

Request = Response

__all__ = ["Request", "Response"]
