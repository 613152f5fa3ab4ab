"""Pairs per second of the cross-encoders that users have today, on the texts of a file.

    rerank_peers.py MODEL TEXTS QUERIES

Each of the first QUERIES texts is paired with each text. One JSON line a peer: name, pairs per second of one call, and the scores of the
first pairs, as the model gives them. Loading and a warm-up lie outside the clock.
"""
import json
import os
import sys
import time

import numpy as np
import onnxruntime
import torch
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer
from transformers import AutoModelForSequenceClassification

MODEL = sys.argv[1]
THREADS = len(os.sched_getaffinity(0))
BATCH = 32
LENGTH = 256
COMPARED = 64


def sentence_transformers(dtype):
    model = CrossEncoder(MODEL, device="cpu", max_length=LENGTH, model_kwargs={"torch_dtype": dtype})
    options = {"batch_size": BATCH, "show_progress_bar": False, "activation_fn": torch.nn.Identity()}
    return lambda pairs: model.predict(pairs, **options)


class Score(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = AutoModelForSequenceClassification.from_pretrained(MODEL, attn_implementation="eager").eval()

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).logits


def export():
    path = os.path.join(MODEL, "model.onnx")
    if os.path.exists(path):
        return path
    names = ["input_ids", "attention_mask", "token_type_ids"]
    sample = torch.ones((2, 16), dtype=torch.long)
    torch.onnx.export(
        Score(),
        (sample, sample, torch.zeros_like(sample)),
        path + ".part",
        input_names=names,
        output_names=["score"],
        dynamic_axes={name: {0: "pairs", 1: "tokens"} for name in names},
        opset_version=17,
        dynamo=False,
    )
    os.rename(path + ".part", path)
    return path


def onnx():
    tokenizer = Tokenizer.from_file(os.path.join(MODEL, "tokenizer.json"))
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(export(), options, providers=["CPUExecutionProvider"])

    def predict(pairs):
        # By length, as sentence-transformers does it.
        order = sorted(range(len(pairs)), key=lambda pair: len(pairs[pair][0]) + len(pairs[pair][1]))
        out = np.empty(len(pairs), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            index = order[start : start + BATCH]
            batch = tokenizer.encode_batch([tuple(pairs[pair]) for pair in index])
            feed = {
                "input_ids": np.array([pair.ids for pair in batch], dtype=np.int64),
                "attention_mask": np.array([pair.attention_mask for pair in batch], dtype=np.int64),
                "token_type_ids": np.array([pair.type_ids for pair in batch], dtype=np.int64),
            }
            out[index] = session.run(None, feed)[0][:, 0]
        return out

    return predict


def main():
    torch.set_num_threads(THREADS)
    with open(sys.argv[2], encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    pairs = [[query, text] for query in texts[: int(sys.argv[3])] for text in texts]
    peers = {
        "sentence-transformers fp32": sentence_transformers(torch.float32),
        "sentence-transformers bf16": sentence_transformers(torch.bfloat16),
        "ONNX Runtime fp32": onnx(),
    }
    for name, predict in peers.items():
        predict(pairs[: 4 * BATCH])
        started = time.perf_counter()
        scores = predict(pairs)
        rate = len(pairs) / (time.perf_counter() - started)
        scores = [float(score) for score in scores[:COMPARED]]
        print(json.dumps({"peer": name, "pairs_per_s": rate, "scores": scores}), flush=True)


main()
