"""Compares documents of `flow_serve` with DocArray 0.21: random programs must do the same with both packages.

`fuzz.py` runs the same few hundred programs each time, `fuzz.py --seconds 600` others until the time is over.
"""

import argparse
import json
import tempfile
import time

import compare
import differences
import hypothesis
from hypothesis import configuration
from programs import PROGRAMS

#: Few enough for a test.
EXAMPLES = 300


def explain(program, found):
    place, theirs, ours = found
    step = program["steps"][place - 1] if place else "the documents"
    return f"{step} of {program}\nDocArray: {theirs}\nours:     {ours}"


def check(examples, seed):
    """Runs programs; fails with the smallest one that differs."""

    @hypothesis.seed(seed)
    @hypothesis.settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(PROGRAMS)
    def same(program):
        found = compare.difference(program)
        assert found is None, explain(program, found)

    same()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0, help="at least as long; otherwise one round")
    parser.add_argument("--seed", type=int, default=0, help="of the first round")
    options = parser.parse_args()
    differences.check(compare.DocArray, compare.Ours)
    end, rounds = time.monotonic() + options.seconds, 0
    # Hypothesis would keep its tables in the current folder.
    with tempfile.TemporaryDirectory(prefix="flow-hypothesis-") as folder:
        configuration.set_hypothesis_home_dir(folder)
        while rounds == 0 or time.monotonic() < end:
            check(EXAMPLES, options.seed + rounds)
            rounds += 1
    if options.seconds:
        print(rounds * EXAMPLES, "programs do the same")
    print(json.dumps("fine"))
