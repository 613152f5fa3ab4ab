"""Renders a chart with the code of Helm itself, and lints it. Needs no cluster.

Arguments: folder of the chart, namespace, values as JSON. Prints JSON: `templates`, the text by path, and `faults`.
"""

import json
import sys

from helm_python import Chart
from helm_python.chart import lint

folder, namespace, values = sys.argv[1:]
values = json.loads(values)
report = lint(folder, values=values, kube_version="v1.37.0")
# 1 is a remark, such as that a chart has no icon.
faults = [it for it in report["messages"] if it["severity"] > 1] + report["errors"]
with Chart.load(folder) as chart:
    templates = chart.render(values=values, name="tested", namespace=namespace)
print(json.dumps({"templates": templates, "faults": faults}))
