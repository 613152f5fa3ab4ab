"""Reads the metrics at a URL with Prometheus' own client for Python, and says what it read.

    metrics.py URL [open]

`open` asks for OpenMetrics, which has exemplars.
"""

import json
import sys
import urllib.request

from prometheus_client import parser
from prometheus_client.openmetrics import parser as open_parser

is_open = sys.argv[2:] == ['open']
accept = 'application/openmetrics-text; version=1.0.0' if is_open else 'text/plain'
with urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers={'Accept': accept})) as answer:
    kind = answer.headers['Content-Type']
    text = answer.read().decode()

read = open_parser if is_open else parser
families = list(read.text_string_to_metric_families(text))
exemplars = [sample.exemplar for family in families for sample in family.samples if sample.exemplar]
print(
    json.dumps(
        {
            'kind': kind,
            'families': {
                family.name: {
                    'type': family.type,
                    'help': family.documentation,
                    'samples': [[sample.name, sample.labels, sample.value] for sample in family.samples],
                }
                for family in families
            },
            'exemplars': [exemplar.labels for exemplar in exemplars],
        }
    )
)
