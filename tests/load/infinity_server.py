"""Infinity's server with one of its engines, until it is ended.

    infinity_server.py ENGINE MODEL PORT

The options are Infinity's defaults, except for the pooling, which its engine `optimum` does not read from the model. It writes no access log,
because the other servers write none.
"""
import os
import sys

os.environ.update(HF_HUB_OFFLINE="1", DO_NOT_TRACK="1")

import uvicorn
from infinity_emb.args import EngineArgs
from infinity_emb.infinity_server import create_server

engine, model, port = sys.argv[1:]
args = EngineArgs(model_name_or_path=model, engine=engine, device="cpu", pooling_method="mean")
app = create_server(engine_args_list=[args], url_prefix="/v1")
uvicorn.run(app, host="127.0.0.1", port=int(port), http="httptools", loop="uvloop", access_log=False)
