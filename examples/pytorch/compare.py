"""Compares curves of two trainings, step by step.

`params` has two mappings, `lab` and `pytorch`, of the names of curves to `{at: […], values: […]}`.
"""

import sys

import sweep

params = sweep.params()
for name, curve in params.lab.items():
    other = params.pytorch[name]
    if curve["at"] != other["at"]:
        sys.exit(f"the curves of `{name}` have different steps: {curve['at']} and {other['at']}")
    for step, lab, pytorch in zip(curve["at"], curve["values"], other["values"]):
        sweep.report(step, **{f"{name}.lab": lab, f"{name}.pytorch": pytorch, f"{name}.difference": abs(lab - pytorch)})
