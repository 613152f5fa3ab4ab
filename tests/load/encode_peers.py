"""Texts per second of the encoders that users have today, on the texts of a file.

    encode_peers.py FOLDER TEXTS

FOLDER holds `model` and gets what is exported from it. One JSON line a peer: name, texts per second, and the lowest
cosine against sentence-transformers fp32 over the first 64 texts. Loading and a warm-up lie outside the clock.
"""
import json
import os
import sys
import time

import numpy as np
import onnxruntime
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import AutoModel

FOLDER = sys.argv[1]
MODEL = os.path.join(FOLDER, "model")
THREADS = len(os.sched_getaffinity(0))
BATCH = 32
COMPARED = 64


def sentence_transformers(dtype):
    model = SentenceTransformer(MODEL, device="cpu").to(dtype)
    return lambda texts: model.encode(texts, batch_size=BATCH, show_progress_bar=False)


class Embed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = AutoModel.from_pretrained(MODEL, attn_implementation="eager").eval()

    def forward(self, input_ids, attention_mask, token_type_ids):
        hidden = self.bert(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state
        mask = attention_mask.unsqueeze(-1).float()
        return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)


def export():
    path = os.path.join(FOLDER, "model.onnx")
    if os.path.exists(path):
        return path
    names = ["input_ids", "attention_mask", "token_type_ids"]
    sample = torch.ones((2, 16), dtype=torch.long)
    torch.onnx.export(
        Embed(),
        (sample, sample, torch.zeros_like(sample)),
        path + ".part",
        input_names=names,
        output_names=["embedding"],
        dynamic_axes={name: {0: "texts", 1: "tokens"} for name in names},
        opset_version=17,
        dynamo=False,
    )
    os.rename(path + ".part", path)
    return path


def onnx():
    tokenizer = Tokenizer.from_file(os.path.join(MODEL, "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(export(), options, providers=["CPUExecutionProvider"])

    def encode(texts):
        # By length, as sentence-transformers does it.
        order = sorted(range(len(texts)), key=lambda text: len(texts[text]))
        out = np.empty((len(texts), 384), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            index = order[start : start + BATCH]
            batch = tokenizer.encode_batch([texts[text] for text in index])
            ids = np.array([text.ids for text in batch], dtype=np.int64)
            mask = np.array([text.attention_mask for text in batch], dtype=np.int64)
            feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            out[index] = session.run(None, feed)[0]
        return out

    return encode


def main():
    torch.set_num_threads(THREADS)
    with open(sys.argv[2], encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    reference = sentence_transformers(torch.float32)
    expected = reference(texts[:COMPARED])
    peers = {
        "sentence-transformers fp32": reference,
        "sentence-transformers bf16": sentence_transformers(torch.bfloat16),
        "ONNX Runtime fp32": onnx(),
    }
    for name, encode in peers.items():
        got = np.asarray(encode(texts[:COMPARED]), dtype=np.float32)
        cosine = (got * expected).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(expected, axis=1)
        started = time.perf_counter()
        encode(texts)
        rate = len(texts) / (time.perf_counter() - started)
        print(json.dumps({"peer": name, "texts_per_s": rate, "cosine_min": float(cosine.min())}), flush=True)


main()
