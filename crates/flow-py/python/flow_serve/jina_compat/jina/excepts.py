"""Jina's exceptions."""

from flow_serve.exceptions import *  # noqa: F403
