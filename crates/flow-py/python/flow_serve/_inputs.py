"""What can be posted, as batches of documents."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from flow_serve.exceptions import BadClientInput

if TYPE_CHECKING:
    from flow_serve._native import Document

#: The documents of one request: ours, or those of DocArray as protobuf.
Batch = "list[Document] | list[bytes]"


def opened(inputs: Any) -> Any:
    """The inputs themselves: those that a function returns, if a function is given."""
    return inputs() if callable(inputs) and not _is_foreign(inputs) and not isinstance(inputs, type) else inputs


def count_of(inputs: Any, request_size: int) -> float | None:
    """The number of requests, if it is known."""
    try:
        documents = len(inputs)
    except TypeError:
        return None
    return max(1.0, documents / request_size) if request_size > 0 else 1.0


def is_async(inputs: Any) -> bool:
    """Whether the inputs have to be awaited."""
    return isinstance(inputs, AsyncIterable)


def batches(inputs: Any, request_size: int) -> Iterator[list[Any]]:
    """The inputs in batches, taken one batch at a time."""
    if inputs is None:
        return iter([[]])
    if is_async(inputs):
        return _batched(_blocking(inputs), request_size)
    if _is_one(inputs):
        return iter([[inputs]])
    return _batched(inputs, request_size)


async def async_batches(inputs: AsyncIterable[Any], request_size: int) -> AsyncIterator[list[Any]]:
    """The same for inputs that have to be awaited."""
    batch: list[Any] = []
    async for item in inputs:
        batch.append(item)
        if len(batch) == request_size:
            yield batch
            batch = []
    if batch:
        yield batch


def _batched(inputs: Iterable[Any], request_size: int) -> Iterator[list[Any]]:
    items = iter(inputs)
    if request_size <= 0:
        everything = list(items)
        return iter([everything] if everything else [])
    return iter(lambda: list(itertools.islice(items, request_size)), [])


def _is_one(inputs: Any) -> bool:
    from flow_serve._native import Document

    one = isinstance(inputs, (Document, str, bytes, dict))
    return one or not isinstance(inputs, Iterable) or (_is_foreign(inputs) and not hasattr(inputs, "__len__"))


def _blocking(inputs: AsyncIterable[Any]) -> Iterator[Any]:
    """Items that have to be awaited, for a caller that does not await: a loop of its own runs between them."""
    loop = asyncio.new_event_loop()
    items = inputs.__aiter__()

    async def following() -> Any:
        return await items.__anext__()

    # A loop cannot run inside another one, so inside one it runs on a thread of its own.
    with ThreadPoolExecutor(1, "flow-inputs") as thread:
        run = loop.run_until_complete
        try:
            while True:
                if _is_inside_loop():
                    item = thread.submit(lambda: run(following())).result()
                else:
                    item = run(following())
                yield item
        except StopAsyncIteration:
            return
        finally:
            loop.close()


def _is_inside_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def documents(batch: list[Any]) -> Any:
    """A batch as what the native client sends: documents of ours, or encoded documents of DocArray."""
    from flow_serve._native import Document

    if all(type(item) is Document for item in batch):
        return batch
    if batch and _is_foreign(batch[0]):
        return [_encoded(item) for item in batch]
    return [item if isinstance(item, Document) else _document(item) for item in batch]


def _document(item: Any) -> Document:
    from flow_serve._native import Document

    if isinstance(item, dict):
        return Document.from_dict(item)
    if _is_foreign(item):
        raise BadClientInput("a request has documents of flow_serve and of docarray; send them in separate requests")
    if not isinstance(item, (str, bytes)) and not hasattr(item, "__array__"):
        kind = type(item).__name__
        raise BadClientInput(f"a `{kind}` is not a document: send documents, texts, bytes, NumPy arrays or mappings of fields")
    return Document(content=item)


def _encoded(item: Any) -> bytes:
    if not _is_foreign(item):
        raise BadClientInput("a request has documents of flow_serve and of docarray; send them in separate requests")
    encoded: bytes = item.to_protobuf().SerializeToString()
    return encoded


def _is_foreign(item: Any) -> bool:
    """Whether it is a document or an array of the package docarray; that of `flow python` is ours."""
    return foreign_kind(type(item)) is not None


def foreign_kind(of: type) -> str | None:
    """`v1` or `v2` if it is a class of the package docarray, or derives from one."""
    for base in of.__mro__:
        root = base.__module__.split(".", 1)[0]
        if root == "docarray":
            return "v2" if hasattr(of, "doc_type") or hasattr(base, "model_fields") or _is_pydantic(of) else "v1"
    return None


def _is_pydantic(of: type) -> bool:
    return any(base.__module__.split(".", 1)[0] == "pydantic" for base in of.__mro__)
