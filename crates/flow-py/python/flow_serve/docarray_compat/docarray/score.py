"""DocArray's score."""

from flow_serve import NamedScore

__all__ = ["NamedScore"]
