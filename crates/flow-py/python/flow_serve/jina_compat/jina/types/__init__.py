"""Jina's types."""
