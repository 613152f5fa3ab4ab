"""Makes the model that Infinity's engine `optimum` reads: the files of the model, and `model.onnx`.

    infinity_model.py MODEL OUT
"""
import os
import shutil
import sys

import torch
from transformers import AutoModel

NAMES = ["input_ids", "attention_mask", "token_type_ids"]
OUTPUT = "last_hidden_state"


class Hidden(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.bert = AutoModel.from_pretrained(model, attn_implementation="eager").eval()

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.bert(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state


def main():
    model, out = sys.argv[1:]
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(model, out)
    os.makedirs(os.path.join(out, "onnx"))
    sample = torch.ones((2, 16), dtype=torch.long)
    torch.onnx.export(
        Hidden(model),
        (sample, sample, torch.zeros_like(sample)),
        os.path.join(out, "onnx", "model.onnx"),
        input_names=NAMES,
        output_names=[OUTPUT],
        dynamic_axes={name: {0: "texts", 1: "tokens"} for name in [*NAMES, OUTPUT]},
        opset_version=17,
        dynamo=False,
    )


main()
