"""Makes a cross-encoder of the encoder's model, for its speed: the head has random weights.

    rerank_model.py FOLDER OUT

FOLDER holds `model`; OUT gets the files of the cross-encoder.
"""
import os
import sys

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

model, out = os.path.join(sys.argv[1], "model"), sys.argv[2]
torch.manual_seed(1)
AutoModelForSequenceClassification.from_pretrained(model, num_labels=1).save_pretrained(out)
AutoTokenizer.from_pretrained(model).save_pretrained(out)
