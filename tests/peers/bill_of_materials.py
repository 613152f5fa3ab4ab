"""Checks a bill of materials against the published schema of CycloneDX 1.5: bill_of_materials.py FILE"""

import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

with open(sys.argv[1]) as file:
    error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(file.read())
if error is not None:
    sys.exit(f"{sys.argv[1]}: {error!r}")
print("valid")
