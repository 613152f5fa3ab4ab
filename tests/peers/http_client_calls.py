"""One call of each client of an HTTP API, and of the Open Inference Protocol over gRPC.

A case has a `url`, a `model`, a `key`, `texts`, and maybe a `timeout` in seconds.
"""
import asyncio

import cohere
import numpy as np
import openai
import tritonclient.grpc
import tritonclient.http
from huggingface_hub import InferenceClient
from langchain_openai import OpenAIEmbeddings
from llama_index.embeddings.openai_like import OpenAILikeEmbedding


def timeout(case):
    return case.get("timeout", 60.0)


def with_openai(case):
    client = openai.OpenAI(base_url=f"{case['url']}/v1", api_key=case["key"], max_retries=0, timeout=timeout(case))
    client.embeddings.create(model=case["model"], input=case["texts"])


def with_async_openai(case):
    async def ask():
        async with openai.AsyncOpenAI(
                base_url=f"{case['url']}/v1", api_key=case["key"], max_retries=0, timeout=timeout(case)) as client:
            await client.embeddings.create(model=case["model"], input=case["texts"])

    asyncio.run(ask())


def with_langchain(case):
    client = OpenAIEmbeddings(
        base_url=f"{case['url']}/v1", api_key=case["key"], model=case["model"], check_embedding_ctx_length=False,
        max_retries=0, timeout=timeout(case))
    client.embed_documents(case["texts"])


def with_llama_index(case):
    client = OpenAILikeEmbedding(
        model_name=case["model"], api_base=f"{case['url']}/v1", api_key=case["key"], max_retries=0,
        timeout=timeout(case))
    client.get_text_embedding_batch(case["texts"])


def with_cohere(case):
    client = cohere.ClientV2(api_key=case["key"], base_url=case["url"], timeout=timeout(case))
    client.embed(
        model=case["model"], texts=case["texts"], input_type="search_document", embedding_types=["float"],
        request_options={"max_retries": 0})


def with_hugging_face(case):
    InferenceClient(model=case["url"], token=case["key"], timeout=timeout(case)).feature_extraction(case["texts"])


def with_triton_http(case):
    client = tritonclient.http.InferenceServerClient(
        case["url"].removeprefix("http://"), network_timeout=timeout(case))
    tensor = tritonclient.http.InferInput("text", [len(case["texts"])], "BYTES")
    tensor.set_data_from_numpy(np.array(case["texts"], dtype=object))
    client.infer(case["model"], [tensor], headers={"authorization": f"Bearer {case['key']}"})


def with_triton_grpc(case):
    client = tritonclient.grpc.InferenceServerClient(case["url"].removeprefix("http://"))
    tensor = tritonclient.grpc.InferInput("text", [len(case["texts"])], "BYTES")
    tensor.set_data_from_numpy(np.array(case["texts"], dtype=object))
    client.infer(case["model"], [tensor], headers={"authorization": f"Bearer {case['key']}"}, client_timeout=timeout(case))


def status(error):
    response = getattr(error, "response", None)
    for holder, name in ((error, "status_code"), (response, "status_code")):
        value = getattr(holder, name, None)
        if value is not None:
            return value
    value = getattr(error, "status", None)
    return value() if callable(value) else value


def outcome(ask, case):
    try:
        ask(case)
    except Exception as error:
        return [type(error).__name__, status(error)]
    return "answered"


CLIENTS = (
    with_openai, with_async_openai, with_langchain, with_llama_index, with_cohere, with_hugging_face, with_triton_http,
    with_triton_grpc,
)
