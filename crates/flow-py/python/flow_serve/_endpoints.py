"""The endpoints that Jina names as methods."""

from __future__ import annotations

from typing import Any


class Endpoints:
    """Methods that post to the endpoint of their name. They return what `post` does."""

    def post(self, on: str, inputs: Any = None, *callbacks: Any, **options: Any) -> Any:
        """Sends documents to an endpoint."""
        raise NotImplementedError

    def index(self, inputs: Any = None, *callbacks: Any, **options: Any) -> Any:
        """Posts to ``/index``."""
        return self.post("/index", inputs, *callbacks, **options)

    def search(self, inputs: Any = None, *callbacks: Any, **options: Any) -> Any:
        """Posts to ``/search``."""
        return self.post("/search", inputs, *callbacks, **options)

    def update(self, inputs: Any = None, *callbacks: Any, **options: Any) -> Any:
        """Posts to ``/update``."""
        return self.post("/update", inputs, *callbacks, **options)

    def delete(self, inputs: Any = None, *callbacks: Any, **options: Any) -> Any:
        """Posts to ``/delete``."""
        return self.post("/delete", inputs, *callbacks, **options)
