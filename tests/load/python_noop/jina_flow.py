"""Jina's own flow with the executor beside this file: what the same executor costs there.

    .peers/jina-v1/bin/python tests/load/python_noop/jina_flow.py PORT
"""

import os
import signal
import sys
from pathlib import Path

os.environ.update(JINA_HIDE_SURVEY="1", JINA_OPTOUT_TELEMETRY="1")

from jina import Flow

if __name__ == "__main__":
    # Without this Jina's processes outlive a SIGTERM of their parent.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    config = Path(__file__).with_name("config.yml")
    with Flow(port=int(sys.argv[1])).add(name="noop", uses=str(config)) as flow:
        print("ready", flush=True)
        flow.block()
