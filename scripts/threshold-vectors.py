#!/usr/bin/env python3
"""Thresholds, ties and quantiles of given scores by NumPy, as vectors for the tests of `bench/threshold`.

    python3 scripts/threshold-vectors.py > crates/lab/src/tasks/bench/testdata/thresholds.json

Requires NumPy. bfloat16 is rounded here by its definition: the upper 16 bits of a number in single precision, to the
nearest, in ties to the even one.
"""

import json

import numpy as np


def bfloat16(numbers):
    bits = numbers.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32)


def case(name, scores, sparsity):
    scores = scores.astype(np.float32)
    k = int(np.floor(sparsity * len(scores)))
    found = {"name": name, "scores": [float(score) for score in scores], "sparsity": sparsity, "k": k}
    for precision, rounded in [("f32", scores), ("bf16", bfloat16(scores))]:
        threshold = np.partition(rounded, k - 1)[k - 1]
        found[precision] = {
            "threshold": float(threshold),
            "pruned": float(np.mean(rounded <= threshold)),
            "ties": float(np.mean(rounded == threshold)),
            "quantile": float(np.quantile(rounded.astype(np.float64), sparsity)),
        }
    return found


random = np.random.default_rng(7)
cases = [
    case("uniform", random.random(600), 0.5),
    case("uniform, many gone", random.random(401), 0.93),
    case("half normal", np.abs(random.standard_normal(512)), 0.25),
    case("equal", np.full(16, 0.3), 0.5),
    case("halfway between two of 16 bits", 0.5 + np.arange(64) * 2.0**-9, 0.5),
    case("two", np.array([0.7, 0.2]), 0.99),
]
print(json.dumps(cases, indent=1))
