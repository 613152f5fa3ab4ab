"""DocArray's document."""

from flow_serve import Document

__all__ = ["Document"]
