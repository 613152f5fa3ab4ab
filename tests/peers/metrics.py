"""Reads the metrics at a URL with Prometheus' own client for Python, and says what it read.

    metrics.py URL
"""

import json
import sys
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

with urllib.request.urlopen(sys.argv[1]) as answer:
    kind = answer.headers['Content-Type']
    text = answer.read().decode()

families = {
    family.name: {
        'type': family.type,
        'help': family.documentation,
        'samples': [[sample.name, sample.labels, sample.value] for sample in family.samples],
    }
    for family in text_string_to_metric_families(text)
}
print(json.dumps({'kind': kind, 'families': families}))
