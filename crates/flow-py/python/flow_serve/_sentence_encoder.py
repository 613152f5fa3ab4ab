"""A sentence encoder without a server, with the arguments of sentence-transformers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from flow_serve._progress import ProgressBar
from flow_serve.exceptions import NotSupportedError

if TYPE_CHECKING:
    import os

    import numpy as np
    from numpy.typing import NDArray

#: Texts that are encoded between two pictures of the progress bar.
STEP_TEXTS = 1024

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"

#: Options of sentence-transformers that are refused if they are set, with the reason.
OF_SENTENCE_TRANSFORMERS = {
    "modules": "a model is loaded from its files",
    "cache_folder": "models are in the cache of Hugging Face; set `HF_HOME`",
    "trust_remote_code": "the code of models is never run",
    "local_files_only": "set `HF_HUB_OFFLINE=1`",
    "token": "set `HF_TOKEN`",
    "use_auth_token": "set `HF_TOKEN`",
    "model_kwargs": "they are options of PyTorch",
    "tokenizer_kwargs": "they are options of transformers",
    "config_kwargs": "they are options of transformers",
    "model_card_data": "models are not trained here",
    "backend": "models run on flow's own kernels",
    "truncate_dim": "set it when the encoder is made",
    "chunk_size": "there are no pools of processes",
    "pool": "there are no pools of processes; threads can share an encoder",
}


class SentenceEncoder:
    """Turns texts into vectors on flow's own kernels. Threads can share an encoder.

    :param model_name_or_path: a name on the Hugging Face hub, or a folder
    :param device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``; without it, a GPU if there is one
    :param prompts: texts that can be put before others, by name, in addition to the model's own
    :param default_prompt_name: the prompt that is put before all texts; without it, the model's default one
    :param revision: branch, tag or commit of the model
    :param truncate_dim: number of leading values of each vector that are kept
    :param similarity_fn_name: what :meth:`similarity` computes: ``cosine``, ``dot``, ``euclidean`` or ``manhattan``
    :param precision: ``f32``, ``bf16``, ``auto``, ``fast``, on the CPU ``int8`` or, on GPUs, ``f16``
    :param max_seq_length: tokens of a text that are read at most; without it, what the model's files say
    :param pooling: how the vector of a text is made of those of its tokens: ``mean``, ``cls``, ``max``, ``lasttoken`` and
        others; without it, what the model's files say
    :param threads: number of threads; without it, one for each core
    """

    def __init__(
        self,
        model_name_or_path: str | os.PathLike[str] = DEFAULT_MODEL,
        device: str | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        *,
        revision: str | None = None,
        truncate_dim: int | None = None,
        similarity_fn_name: str | None = None,
        precision: str | None = None,
        max_seq_length: int | None = None,
        pooling: str | None = None,
        threads: int | None = None,
        **options_of_torch: Any,
    ) -> None:
        from flow_serve import _native

        _refuse(options_of_torch)
        if similarity_fn_name not in (None, *SIMILARITIES):
            raise ValueError(f"there is no similarity `{similarity_fn_name}`; there are {', '.join(f'`{it}`' for it in SIMILARITIES)}")
        self.similarity_fn_name = similarity_fn_name or "cosine"
        options = {
            "max_length": max_seq_length,
            "dimensions": truncate_dim,
            "precision": precision,
            "pooling": pooling,
            "threads": threads,
        }
        given = {key: value for key, value in options.items() if value is not None}
        self._encoder = _native.TextEncoder(str(model_name_or_path), revision, device or "auto", given)
        self._prompts = {**self._encoder.prompts, **(prompts or {})}
        self._default_prompt = self._prompt(default_prompt_name or self._encoder.default_prompt_name)

    @property
    def device(self) -> str:
        """The device that computes."""
        return self._encoder.device

    @property
    def max_seq_length(self) -> int:
        """The number of tokens of a text that the model reads at most."""
        return self._encoder.max_length

    def get_sentence_embedding_dimension(self) -> int:
        """The number of values of a vector."""
        return self._encoder.width

    def encode(
        self,
        sentences: str | Sequence[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        output_value: str | None = "sentence_embedding",
        precision: str = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: str | None = None,
        normalize_embeddings: bool | None = None,
        **options: Any,
    ) -> Any:
        """Encodes a text, or several texts.

        The vectors do not depend on ``batch_size``. Without ``normalize_embeddings``, the model's files say whether
        vectors have the length 1.

        :param prompt_name: the name of the prompt that is put before the texts, one of ``prompts`` or of the model's own
        :param prompt: the prompt itself
        :param batch_size: texts that are computed at a time; by default as many as suit the device. Memory grows with it
        :param show_progress_bar: whether to draw a progress bar
        :param convert_to_tensor: whether to return a tensor of PyTorch
        :param normalize_embeddings: whether vectors have the length 1
        :return: an array of ``float32`` with one dimension for a text, and with two for several texts; with
            ``convert_to_tensor`` a tensor of PyTorch, and without ``convert_to_numpy`` a list of arrays
        """
        if output_value != "sentence_embedding":
            raise NotSupportedError(f"`output_value={output_value!r}` is not supported: there are vectors of texts only, not of tokens")
        if precision != "float32":
            raise NotSupportedError(f"`precision={precision!r}` is not supported: vectors are `float32`; round them with NumPy")
        if device not in (None, self.device):
            raise NotSupportedError(f"`device={device!r}` of `encode` is not supported: the encoder is on `{self.device}`; make another one")
        _refuse(options)
        is_one = isinstance(sentences, str)
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        if prompt is None:
            prompt = self._prompt(prompt_name) if prompt_name is not None else self._default_prompt
        vectors = self._vectors(texts, (batch_size or 0, normalize_embeddings, prompt), bool(show_progress_bar))
        result: Any = vectors[0] if is_one else vectors
        if convert_to_tensor:
            import torch

            return torch.from_numpy(result)
        return result if convert_to_numpy or is_one else list(result)

    def encode_query(self, sentences: str | Sequence[str], *arguments: Any, **options: Any) -> Any:
        """Encodes questions: like :meth:`encode`, with the prompt ``query`` if there is one."""
        return self._encode_with(("query",), sentences, arguments, options)

    def encode_document(self, sentences: str | Sequence[str], *arguments: Any, **options: Any) -> Any:
        """Encodes texts to be found: like :meth:`encode`, with the prompt ``document``, ``passage`` or ``corpus`` if there is one."""
        return self._encode_with(("document", "passage", "corpus"), sentences, arguments, options)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> NDArray[np.floating[Any]]:
        """How similar each vector of the first array is to each one of the second: a matrix with a row for each of the first.
        Distances are negative."""
        import numpy as np

        first, second = (np.atleast_2d(np.asarray(each, dtype=np.float32)) for each in (embeddings1, embeddings2))
        matrix: NDArray[np.floating[Any]] = SIMILARITIES[self.similarity_fn_name](first, second)
        return matrix

    def _encode_with(self, prompts: tuple[str, ...], sentences: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        prompt_name = arguments[0] if arguments else options.pop("prompt_name", None)
        prompt = arguments[1] if len(arguments) > 1 else options.pop("prompt", None)
        if prompt_name is None and prompt is None:
            prompt_name = next((name for name in prompts if name in self._prompts), None)
            # Not the default one, which may be for other texts.
            prompt = "" if prompt_name is None else None
        return self.encode(sentences, prompt_name, prompt, *arguments[2:], **options)

    def _vectors(
        self, texts: list[str], options: tuple[int, bool | None, str | None], show: bool
    ) -> NDArray[np.float32]:
        if not show:
            return self._encoder.encode(texts, options)
        import numpy as np

        parts = []
        with ProgressBar(max(1.0, len(texts) / STEP_TEXTS), show) as progress:
            for start in range(0, len(texts), STEP_TEXTS):
                parts.append(self._encoder.encode(texts[start : start + STEP_TEXTS], options))
                progress.update()
        return np.concatenate(parts) if parts else self._encoder.encode([], options)

    def _prompt(self, name: str | None) -> str | None:
        if name is None:
            return None
        if name not in self._prompts:
            known = ", ".join(f"`{each}`" for each in self._prompts) or "none"
            raise ValueError(f"there is no prompt `{name}`; the prompts are {known}")
        return self._prompts[name]


def _refuse(options: dict[str, Any]) -> None:
    """Refuses options of sentence-transformers that would have an effect there, and options that do not exist."""
    for name, value in options.items():
        if name not in OF_SENTENCE_TRANSFORMERS:
            raise TypeError(f"`SentenceEncoder` has no option `{name}`")
        if value:
            raise NotSupportedError(f"`{name}` is not supported: {OF_SENTENCE_TRANSFORMERS[name]}")


def _cosine(first: Any, second: Any) -> Any:
    import numpy as np

    lengths = np.linalg.norm(first, axis=1)[:, None] * np.linalg.norm(second, axis=1)
    return first @ second.T / np.maximum(lengths, 1e-12)


def _dot(first: Any, second: Any) -> Any:
    return first @ second.T


def _euclidean(first: Any, second: Any) -> Any:
    import numpy as np

    squares = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1) - 2 * first @ second.T
    return -np.sqrt(np.maximum(squares, 0))


def _manhattan(first: Any, second: Any) -> Any:
    import numpy as np

    # Row by row, because all differences at once would take the size of a vector times as much memory.
    return -np.stack([np.abs(second - row).sum(axis=1) for row in first])


#: What `similarity` can compute, by the names of sentence-transformers.
SIMILARITIES: dict[str, Callable[[Any, Any], Any]] = {
    "cosine": _cosine,
    "dot": _dot,
    "euclidean": _euclidean,
    "manhattan": _manhattan,
}


class LangChainEmbeddings:
    """An encoder for LangChain: an object with the methods of its class ``Embeddings``.

    Vector stores of LangChain that ask for an instance of that class take ``class E(LangChainEmbeddings, Embeddings)``.
    """

    def __init__(self, encoder: SentenceEncoder | str = DEFAULT_MODEL, **encode_options: Any) -> None:
        self._encoder = encoder if isinstance(encoder, SentenceEncoder) else SentenceEncoder(encoder)
        self._options = encode_options

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of texts."""
        return _lists(self._encoder.encode(texts, **self._options))

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        vector: list[float] = self._encoder.encode(text, **self._options).tolist()
        return vector

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of texts, computed on another thread."""
        return await asyncio.get_running_loop().run_in_executor(None, self.embed_documents, texts)

    async def aembed_query(self, text: str) -> list[float]:
        """The vector of a question, computed on another thread."""
        return await asyncio.get_running_loop().run_in_executor(None, self.embed_query, text)

    def __call__(self, texts: Iterable[str]) -> list[list[float]]:
        return self.embed_documents(list(texts))


def llama_index_embedding(encoder: SentenceEncoder | str = DEFAULT_MODEL, **encode_options: Any) -> Any:
    """An encoder for LlamaIndex: an object of its class ``BaseEmbedding``. LlamaIndex must be installed."""
    from llama_index.core.base.embeddings.base import BaseEmbedding

    adapter = LangChainEmbeddings(encoder, **encode_options)

    class FlowEmbedding(BaseEmbedding):  # type: ignore[misc]
        def _get_query_embedding(self, query: str) -> list[float]:
            return adapter.embed_query(query)

        def _get_text_embedding(self, text: str) -> list[float]:
            return adapter.embed_query(text)

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return adapter.embed_documents(texts)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return await adapter.aembed_query(query)

    return FlowEmbedding(model_name="flow-serve")


def _lists(vectors: Any) -> list[list[float]]:
    lists: list[list[float]] = vectors.tolist()
    return lists
