#!/usr/bin/env python3
"""Writes the codes and numbers of 8-bit formats by `ml_dtypes`, with which the tests of crates/lab compare their own.

    pip install ml_dtypes numpy
    python scripts/fp8-vectors.py > crates/lab/src/papers/pairs/testdata/fp8.json
"""

import json
import sys

import ml_dtypes
import numpy as np

FORMATS = ["float8_e4m3fn", "float8_e5m2"]


def numbers():
    """Numbers to round: random ones of all sizes, every code's, and every tie between two codes with its neighbors."""
    random = np.random.default_rng(0)
    found = [random.normal(0, 1, 200), random.normal(0, 1, 200) * 2.0 ** random.integers(-20, 18, 200)]
    for name in FORMATS:
        codes = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name)).astype(np.float32)
        finite = np.unique(codes[np.isfinite(codes)])
        ties = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
        step = finite[-1] - finite[-2]
        beyond = np.array([finite[-1] + step / 2, finite[-1] + step], dtype=np.float32)
        for values in (ties, beyond, -beyond):
            found += [values, np.nextafter(values, np.float32(np.inf)), np.nextafter(values, np.float32(-np.inf))]
    found += [[0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3.4e38]]
    return np.unique(np.concatenate([np.asarray(part, dtype=np.float32) for part in found]).view(np.uint32)).view(np.float32)


def main():
    given = numbers()
    formats = {}
    for name in FORMATS:
        dtype = getattr(ml_dtypes, name)
        decoded = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
        bits = np.where(np.isnan(decoded), np.uint32(0x7FC00000), decoded.view(np.uint32))
        codes = given.astype(dtype)
        codes = np.where(np.isnan(codes.astype(np.float32)), 255, codes.view(np.uint8))
        formats[name] = {"decoded": bits.tolist(), "codes": codes.tolist()}
    # The relative rounding error of normally distributed numbers with a scale for all, as a root mean square.
    values = np.random.default_rng(1).normal(0, 1, 1 << 20).astype(np.float32)
    errors = {}
    for name in FORMATS:
        dtype = getattr(ml_dtypes, name)
        scale = np.abs(values).max() / np.float32(ml_dtypes.finfo(dtype).max)
        rounded = (values / scale).astype(dtype).astype(np.float32) * scale
        errors[name] = rms(rounded, values)
    errors["bfloat16"] = rms(values.astype(ml_dtypes.bfloat16).astype(np.float32), values)
    errors["float16"] = rms(values.astype(np.float16).astype(np.float32), values)
    whole = {"origin": f"ml_dtypes {ml_dtypes.__version__}", "bits": given.view(np.uint32).tolist(), "formats": formats, "errors": errors}
    json.dump(whole, sys.stdout)
    print()


def rms(rounded, values):
    """The root mean square of relative errors."""
    relative = (rounded.astype(np.float64) - values) / values
    return float(np.sqrt(np.mean(relative**2)))


main()
