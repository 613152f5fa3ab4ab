"""Proves that LangChain and LlamaIndex take the encoder. It runs where both are installed."""
import json

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.base.embeddings.base import BaseEmbedding

from flow_serve import LangChainEmbeddings, SentenceEncoder, llama_index_embedding

encoder = SentenceEncoder(device="cpu")
TEXTS = ["a cat", "a car", "a dog"]


class OfLangChain(LangChainEmbeddings, Embeddings):
    pass


for adapter in (LangChainEmbeddings(encoder), OfLangChain(encoder)):
    store = InMemoryVectorStore(adapter)
    store.add_texts(TEXTS)
    assert store.similarity_search("kitten", k=1)[0].page_content == "a cat"

index = llama_index_embedding(encoder)
assert isinstance(index, BaseEmbedding)
assert np.allclose(index.get_text_embedding_batch(TEXTS), encoder.encode(TEXTS), atol=1e-6)
assert np.allclose(index.get_query_embedding("kitten"), encoder.encode("kitten"), atol=1e-6)
print(json.dumps("fine"))
