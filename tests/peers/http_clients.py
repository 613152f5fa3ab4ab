"""Clients of HTTP APIs at a flow with one sentence encoder.

    http_clients.py PORT MODEL
"""
import json
import queue
import sys
import urllib.request

import cohere
import grpc
import numpy as np
import openai
import tritonclient.grpc
import tritonclient.http
import websockets.sync.client
from huggingface_hub import InferenceClient
from langchain_openai import OpenAIEmbeddings
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

ADDRESS, MODEL = f"127.0.0.1:{sys.argv[1]}", sys.argv[2]
URL = f"http://{ADDRESS}"
TEXTS = ["a text", "another, longer text"]

plain = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)


def floats(vectors):
    return [[float(value) for value in vector] for vector in vectors]


def openai_base64():
    """What the client asks for by default."""
    reply = plain.embeddings.create(model=MODEL, input=TEXTS)
    return {"vectors": floats(it.embedding for it in reply.data), "tokens": reply.usage.prompt_tokens}


def openai_float():
    reply = plain.embeddings.create(model=MODEL, input=TEXTS, encoding_format="float")
    return floats(it.embedding for it in reply.data)


def websockets_json():
    """Requests in JSON in a row, and the end of the input."""
    vectors = {}
    with websockets.sync.client.connect(f"ws://{ADDRESS}/") as socket:
        for text in TEXTS:
            request = {"data": [{"text": text}], "header": {"execEndpoint": "/encode"}}
            socket.send(json.dumps(request))
        for _ in TEXTS:
            [document] = json.loads(socket.recv())["data"]
            vectors[document["text"]] = document["embedding"]
        socket.send("{}")
        try:
            socket.recv()
        except websockets.exceptions.ConnectionClosedOK as closed:
            code = closed.rcvd.code
        extensions = [extension.name for extension in socket.protocol.extensions]
    return {"vectors": [vectors[text] for text in TEXTS], "code": code, "extensions": extensions}


def openai_models():
    ids = [model.id for model in plain.models.list()]
    return {"ids": ids, "one": plain.models.retrieve(MODEL).id}


def openai_unknown_model():
    try:
        plain.embeddings.create(model="no-such-model", input="a")
    except openai.NotFoundError as error:
        return {"code": error.code, "param": error.param}


def openai_bad_request():
    try:
        plain.embeddings.create(model=MODEL, input=[[1, 2, 99_999]])
    except openai.BadRequestError as error:
        return {"param": error.param, "message": error.message}


def openai_token_ids():
    body = json.dumps({"inputs": TEXTS}).encode()
    request = urllib.request.Request(f"{URL}/tokenize", body, {"content-type": "application/json"})
    ids = [[token["id"] for token in tokens] for tokens in json.load(urllib.request.urlopen(request))]
    reply = plain.embeddings.create(model=MODEL, input=ids)
    return floats(it.embedding for it in reply.data)


def langchain():
    client = OpenAIEmbeddings(base_url=f"{URL}/v1", api_key="none", model=MODEL, check_embedding_ctx_length=False)
    return floats([*client.embed_documents(TEXTS)])


def llama_index():
    client = OpenAILikeEmbedding(model_name=MODEL, api_base=f"{URL}/v1", api_key="none")
    return floats(client.get_text_embedding_batch(TEXTS))


def cohere_floats():
    client = cohere.ClientV2(api_key="none", base_url=URL)
    reply = client.embed(model=MODEL, texts=TEXTS, input_type="search_document", embedding_types=["float", "int8"])
    tokens = reply.meta.billed_units.input_tokens
    return {"vectors": floats(reply.embeddings.float_), "tokens": tokens, "int8": reply.embeddings.int8}


def cohere_rerank():
    try:
        cohere.ClientV2(api_key="none", base_url=URL).rerank(model=MODEL, query="a", documents=["b"])
    except cohere.NotFoundError as error:
        return error.body["message"]


def hugging_face():
    client = InferenceClient(model=URL)
    return floats(np.asarray(client.feature_extraction(text, normalize=True)).reshape(-1) for text in TEXTS)


def hugging_face_similarity():
    return InferenceClient(model=URL + "/similarity").sentence_similarity(TEXTS[0], TEXTS)


def triton(binary):
    client = tritonclient.http.InferenceServerClient(ADDRESS)
    name = MODEL.rsplit("/", 1)[-1]
    assert client.is_server_ready() and client.is_model_ready(name)
    tensor = tritonclient.http.InferInput("text", [len(TEXTS)], "BYTES")
    tensor.set_data_from_numpy(np.array(TEXTS, dtype=object), binary_data=binary)
    output = tritonclient.http.InferRequestedOutput("embedding", binary_data=binary)
    reply = client.infer(name, [tensor], outputs=[output])
    return floats(reply.as_numpy("embedding"))


def triton_grpc_tensor(texts):
    tensor = tritonclient.grpc.InferInput("text", [len(texts)], "BYTES")
    tensor.set_data_from_numpy(np.array(texts, dtype=object))
    return tensor


def triton_grpc():
    """The texts as bytes, which is all that this client sends."""
    client = tritonclient.grpc.InferenceServerClient(ADDRESS)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(MODEL)
    assert not client.get_server_metadata().extensions
    described = client.get_model_metadata(MODEL)
    assert [*described.inputs[0].shape] == [-1] and [*described.outputs[0].shape] == [-1, 384], described
    output = tritonclient.grpc.InferRequestedOutput("embedding")
    reply = client.infer(MODEL, [triton_grpc_tensor(TEXTS)], outputs=[output], request_id="7")
    assert reply.get_response().id == "7" and len(reply.get_response().raw_output_contents) == 1
    return floats(reply.as_numpy("embedding"))


def triton_grpc_typed():
    """The texts as elements, which other clients of the protocol send."""
    channel = grpc.insecure_channel(ADDRESS)
    contents = service_pb2.InferTensorContents(bytes_contents=[text.encode() for text in TEXTS])
    tensor = service_pb2.ModelInferRequest.InferInputTensor(
        name="text", datatype="BYTES", shape=[len(TEXTS)], contents=contents)
    request = service_pb2.ModelInferRequest(model_name=MODEL, inputs=[tensor])
    output = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request).outputs[0]
    return floats(np.array(output.contents.fp32_contents).reshape([*output.shape]))


def triton_grpc_stream():
    """One request for each text, and one that fails between them."""
    replies = queue.Queue()
    client = tritonclient.grpc.InferenceServerClient(ADDRESS)
    client.start_stream(lambda result, error: replies.put((result, error)))
    for model, text in ((MODEL, TEXTS[0]), ("no-such-model", "a"), (MODEL, TEXTS[1])):
        client.async_stream_infer(model, [triton_grpc_tensor([text])])
    (first, _), (_, error), (last, _) = [replies.get(timeout=30) for _ in range(3)]
    client.stop_stream()
    assert "no-such-model" in error.message(), error
    return floats(reply.as_numpy("embedding")[0] for reply in (first, last))


def triton_grpc_errors():
    client = tritonclient.grpc.InferenceServerClient(ADDRESS)

    def status(model, texts):
        try:
            client.infer(model, [triton_grpc_tensor(texts)])
        except InferenceServerException as error:
            return [error.status(), error.message()]

    return [status("no-such-model", ["a"]), status(MODEL, ["a", ""])]


def triton_json():
    return triton(False)


def triton_binary():
    return triton(True)


CASES = (
    openai_base64, openai_float, openai_models, openai_unknown_model, openai_bad_request, openai_token_ids, langchain, llama_index,
    cohere_floats, cohere_rerank, hugging_face, hugging_face_similarity, triton_json, triton_binary,
    triton_grpc, triton_grpc_typed, triton_grpc_stream, triton_grpc_errors, websockets_json,
)
print(json.dumps({case.__name__: case() for case in CASES}))
