"""Jina's responses, under the name of the module that defines them there."""

from flow_serve import Response

DataRequest = Response

__all__ = ["DataRequest", "Response"]
