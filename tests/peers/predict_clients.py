"""Hugging Face's client at a flow with a classifier.

    predict_clients.py PORT TEXT
"""
import json
import sys

from huggingface_hub import InferenceClient

URL, TEXT = f"http://127.0.0.1:{sys.argv[1]}", sys.argv[2]


def best(path, **parameters):
    client = InferenceClient(model=URL + path, token="none")
    found = client.text_classification(TEXT, **parameters)
    return {"label": found.label, "score": found.score}


print(
    json.dumps(
        {
            "predict": best("/predict"),
            "root": best("", top_k=1),
            "raw": best("/predict", function_to_apply="none"),
        }
    )
)
