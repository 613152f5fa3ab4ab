"""Jina's logging."""
