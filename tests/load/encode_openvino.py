"""Texts per second of OpenVINO on the texts of a file: fp32, bf16, and int8 as NNCF quantizes it.

    encode_openvino.py FOLDER CALIBRATION TEXTS

FOLDER holds `model`, and `model.onnx` as `encode_peers.py` exports it. The first 300 texts of CALIBRATION give the ranges of the
8-bit integers; the quantized model is kept in FOLDER. One JSON line a precision: name, texts per second, and the lowest cosine
against OpenVINO fp32 over the first 64 texts. OpenVINO's own hint for throughput decides streams and threads. Texts are
sorted by length and encoded 32 at a time. Loading, compiling and a warm-up lie outside the clock.
"""
import json
import os
import sys
import time

import numpy as np
import openvino
from tokenizers import Tokenizer

FOLDER, CALIBRATION, TEXTS = sys.argv[1:]
BATCH = 32
COMPARED = 64
CALIBRATED = 300
MODEL = os.path.join(FOLDER, "model.onnx")

core = openvino.Core()
tokenizer = Tokenizer.from_file(os.path.join(FOLDER, "model/tokenizer.json"))
tokenizer.enable_truncation(256)
tokenizer.enable_padding()


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def feed(texts):
    batch = tokenizer.encode_batch(texts)
    ids = np.array([text.ids for text in batch], dtype=np.int64)
    mask = np.array([text.attention_mask for text in batch], dtype=np.int64)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def quantized():
    path = os.path.join(FOLDER, "openvino-int8.xml")
    if not os.path.exists(path):
        import nncf

        samples = nncf.Dataset([feed([text]) for text in read(CALIBRATION)[:CALIBRATED]])
        model = nncf.quantize(core.read_model(MODEL), samples, model_type=nncf.ModelType.TRANSFORMER)
        openvino.save_model(model, os.path.join(FOLDER, "openvino-int8.part.xml"))
        os.rename(os.path.join(FOLDER, "openvino-int8.part.bin"), os.path.join(FOLDER, "openvino-int8.bin"))
        os.rename(os.path.join(FOLDER, "openvino-int8.part.xml"), path)
    return core.read_model(path)


def encoder(model, precision):
    hints = {"PERFORMANCE_HINT": "THROUGHPUT", "INFERENCE_PRECISION_HINT": precision}
    compiled = core.compile_model(model, "CPU", hints)

    def encode(texts):
        order = sorted(range(len(texts)), key=lambda text: len(texts[text]))
        out = np.empty((len(texts), 384), dtype=np.float32)
        queue = openvino.AsyncInferQueue(compiled)
        queue.set_callback(lambda request, index: out.__setitem__(index, request.get_output_tensor(0).data))
        for start in range(0, len(order), BATCH):
            index = order[start : start + BATCH]
            queue.start_async(feed([texts[text] for text in index]), index)
        queue.wait_all()
        return out

    return encode


def main():
    texts = read(TEXTS)
    reference = encoder(core.read_model(MODEL), "f32")
    expected = reference(texts[:COMPARED])
    peers = {
        "OpenVINO fp32": reference,
        "OpenVINO bf16": encoder(core.read_model(MODEL), "bf16"),
        "OpenVINO int8": encoder(quantized(), "f32"),
        "OpenVINO int8 and bf16": encoder(quantized(), "bf16"),
    }
    for name, encode in peers.items():
        got = encode(texts[:256])[:COMPARED]
        cosine = (got * expected).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(expected, axis=1)
        started = time.perf_counter()
        encode(texts)
        rate = len(texts) / (time.perf_counter() - started)
        line = {"peer": name, "texts_per_s": rate, "cosine_min": float(cosine.min()), "version": openvino.__version__}
        print(json.dumps(line), flush=True)


main()
