"""What clients of HTTP APIs do when they give up, and when the gateway shuts down.

    http_client_interruptions.py cancel CASE
    http_client_interruptions.py drain CASE METRICS PID

CASE is JSON, as `http_client_calls.py` has it. In `cancel` each client gives up. In `drain` all clients send a request at once; when the
gateway, whose metrics are at the URL METRICS, has all of them, the process PID gets SIGTERM. Then each sends another request.
The last line of the output is JSON: for each client how its requests ended.
"""
import json
import os
import signal
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from http_client_calls import CLIENTS, outcome

PENDING = "jina_number_of_pending_requests{"
ANSWERED = "jina_successful_requests_total{"


def name(ask):
    return ask.__name__.removeprefix("with_")


def count(metrics, *names):
    with urllib.request.urlopen(metrics) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(names))


def cancel(case):
    return {name(ask): outcome(ask, case) for ask in CLIENTS}


def drain(case, metrics, pid):
    with ThreadPoolExecutor(len(CLIENTS)) as threads:
        running = {name(ask): threads.submit(outcome, ask, case) for ask in CLIENTS}
        while count(metrics, PENDING, ANSWERED) < len(CLIENTS):
            failed = [it.result() for it in running.values() if it.done() and it.result() != "answered"]
            assert not failed, failed
        in_progress = count(metrics, PENDING)
        os.kill(int(pid), signal.SIGTERM)
        before = {client: it.result() for client, it in running.items()}
    after = {name(ask): outcome(ask, case) for ask in CLIENTS}
    return {"before": before, "after": after, "in_progress": in_progress}


task, case, *rest = sys.argv[1:]
print(json.dumps({"cancel": cancel, "drain": drain}[task](json.loads(case), *rest)))
