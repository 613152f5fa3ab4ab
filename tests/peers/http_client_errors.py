"""What clients of HTTP APIs raise when a gateway refuses a request, or cannot answer it.

    http_client_errors.py CASES

CASES is JSON: a list of cases, each with a name, a port, a model, an API key and texts. The last line of the output is JSON: for each
case and each client the exception and the status.
"""
import json
import sys

from http_client_calls import CLIENTS, outcome, with_openai

found = {}
for case in json.loads(sys.argv[1]):
    case["url"] = f"http://127.0.0.1:{case['port']}"
    if case.get("is_first_answered"):
        with_openai(case)
    found[case["name"]] = {ask.__name__.removeprefix("with_"): outcome(ask, case) for ask in CLIENTS}
print(json.dumps(found))
