"""The endpoints that Jina names as methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flow_serve._plan import Callback


class Endpoints:
    """Methods that post to the endpoint of their name. They return what `post` does."""

    def post(self, on: str, inputs: Any = None, *callbacks: Any, **options: Any) -> Any:
        """Sends documents to an endpoint."""
        raise NotImplementedError

    def index(
        self,
        inputs: Any = None,
        on_done: Callback = None,
        on_error: Callback = None,
        on_always: Callback = None,
        parameters: Any = None,
        target_executor: str | None = None,
        *more: Any,
        **options: Any,
    ) -> Any:
        """Posts to ``/index``, with the options of `post`."""
        return self.post("/index", inputs, on_done, on_error, on_always, parameters, target_executor, *more, **options)

    def search(
        self,
        inputs: Any = None,
        on_done: Callback = None,
        on_error: Callback = None,
        on_always: Callback = None,
        parameters: Any = None,
        target_executor: str | None = None,
        *more: Any,
        **options: Any,
    ) -> Any:
        """Posts to ``/search``, with the options of `post`."""
        return self.post("/search", inputs, on_done, on_error, on_always, parameters, target_executor, *more, **options)

    def update(
        self,
        inputs: Any = None,
        on_done: Callback = None,
        on_error: Callback = None,
        on_always: Callback = None,
        parameters: Any = None,
        target_executor: str | None = None,
        *more: Any,
        **options: Any,
    ) -> Any:
        """Posts to ``/update``, with the options of `post`."""
        return self.post("/update", inputs, on_done, on_error, on_always, parameters, target_executor, *more, **options)

    def delete(
        self,
        inputs: Any = None,
        on_done: Callback = None,
        on_error: Callback = None,
        on_always: Callback = None,
        parameters: Any = None,
        target_executor: str | None = None,
        *more: Any,
        **options: Any,
    ) -> Any:
        """Posts to ``/delete``, with the options of `post`."""
        return self.post("/delete", inputs, on_done, on_error, on_always, parameters, target_executor, *more, **options)
