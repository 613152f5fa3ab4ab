"""Jina's runtime."""
