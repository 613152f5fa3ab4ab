"""What scripts use of Jina's helpers."""

import socket
import uuid


def random_port() -> int:
    """A port on which no process listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def random_identity() -> str:
    """A random id."""
    return uuid.uuid4().hex
