"""Prints the paths of a dashboard that Grafana's own types do not know, as a JSON array: dashboard.py FILE

The file is read into the types of Grafana and written again. What they do not know is then missing.
"""

import json
import sys
from collections.abc import Iterator

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard


def lost(before: object, after: object, path: str) -> Iterator[str]:
    match before, after:
        case dict(), dict():
            for key, value in before.items():
                here = f"{path}.{key}"
                yield from lost(value, after[key], here) if key in after else [here]
        case list(), list() if len(before) == len(after):
            for number, pair in enumerate(zip(before, after)):
                yield from lost(*pair, f"{path}[{number}]")
        case _ if before != after:
            yield path


# The types of the options of each kind of panel.
register_default_plugins()
with open(sys.argv[1]) as file:
    written = json.load(file)
known = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(written)))
print(json.dumps(list(lost(written, known, "dashboard"))))
