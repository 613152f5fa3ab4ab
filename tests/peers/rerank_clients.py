"""Cohere's client at a flow with a reranker.

    rerank_clients.py PORT '["QUERY", ["DOCUMENT", ...]]'
"""
import json
import sys

import cohere

URL = f"http://127.0.0.1:{sys.argv[1]}"
QUERY, DOCUMENTS = json.loads(sys.argv[2])


def results(reply):
    return [{"index": it.index, "relevance_score": it.relevance_score} for it in reply.results]


def unknown(client):
    try:
        client.rerank(model="no-such-model", query=QUERY, documents=DOCUMENTS)
    except cohere.NotFoundError as error:
        return error.body["message"]


first = cohere.Client(api_key="none", base_url=URL)
second = cohere.ClientV2(api_key="none", base_url=URL)
print(
    json.dumps(
        {
            "first": results(first.rerank(model="rerank-v3.5", query=QUERY, documents=DOCUMENTS)),
            "second": results(second.rerank(model="ranker", query=QUERY, documents=DOCUMENTS, top_n=2)),
            "unknown": unknown(second),
        }
    )
)
