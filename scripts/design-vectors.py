#!/usr/bin/env python3
"""Writes crates/engine/tests/engine/testdata/design.json: power and seeds by statsmodels and SciPy, for tests of `sweep plan --detect`.

Needs numpy, scipy and statsmodels.
"""

import json
import pathlib

import numpy as np
import scipy
import statsmodels
from scipy import stats
from statsmodels.stats.power import TTestIndPower, TTestPower

VALUES = {
    "x": [10.1, 11.4, 12.2, 13.9],
    "y": [20.6, 21.1, 22.9, 23.3],
    "z": [11.4, 12.4, 12.9, 14.1],
}
PLANNED = 12
DIFFERENCE = 0.5
PERCENT = 0.02


def fewest(power):
    return next(n for n in range(2, 1001) if power(n) >= 0.8)


def answer(sd, freedom, difference, level, power):
    return {
        "sd": sd,
        "freedom": freedom,
        "sd_interval": [sd * (freedom / stats.chi2.ppf(p, freedom)) ** 0.5 for p in (0.975, 0.025)],
        "difference": difference,
        "level": level,
        "power": power(PLANNED),
        "seeds_needed": fewest(power),
    }


def one_sample(sd, freedom, difference, level=0.95):
    power = lambda n: TTestPower().power(difference / sd, n, 1 - level, alternative="two-sided")
    return answer(sd, freedom, difference, level, power)


values = {name: np.array(own) for name, own in VALUES.items()}
y_x, z_x = values["y"] - values["x"], values["z"] - values["x"]
sd = lambda sample: float(np.std(sample, ddof=1))
ratio = sd(np.log(values["z"]) - np.log(values["x"]))
pooled = float(np.sqrt((np.var(y_x, ddof=1) + np.var(z_x, ddof=1)) / 2))
expected = {
    "claim far": one_sample(sd(y_x), 3, DIFFERENCE),
    "claim mean": one_sample(sd(values["z"]), 3, DIFFERENCE),
    # The two rows of a table share one standard deviation and the first step of Holm's correction.
    "comparison y − x": one_sample(pooled, 6, DIFFERENCE, 1 - 0.05 / 2),
    "comparison z − x": one_sample(pooled, 6, DIFFERENCE, 1 - 0.05 / 2),
    # On logarithms; an absolute difference is related to the mean of the denominator.
    "claim ratio": one_sample(ratio, 3, float(np.log1p(DIFFERENCE / values["x"].mean()))),
    "claim ratio 2%": one_sample(ratio, 3, float(np.log1p(PERCENT))),
    "claim far 2%": one_sample(sd(y_x), 3, PERCENT * float(np.mean([values["x"], values["y"]]))),
}

# Tukey's range test of three rows in blocks, for one pair of rows: a noncentral t variable and the bound q / √2.
table = np.array(list(values.values()))
residuals = table - table.mean(1, keepdims=True) - table.mean(0) + table.mean()
rows, blocks = table.shape
residual = float(np.sqrt((residuals**2).sum() / ((rows - 1) * (blocks - 1))))


def tukey(n):
    freedom = (rows - 1) * (n - 1)
    bound = stats.studentized_range.ppf(0.95, rows, freedom) / 2**0.5
    center = DIFFERENCE / residual * (n / 2) ** 0.5
    return stats.nct.sf(bound, freedom, center) + stats.nct.cdf(-bound, freedom, center)


expected["marks"] = answer(residual, (rows - 1) * (blocks - 1), DIFFERENCE, 0.95, tukey)

# Seeds that only one side has: two samples, with the variance of their values pooled.
unpaired = float(np.sqrt((np.var(values["x"], ddof=1) + np.var(values["y"], ddof=1)) / 2))
power = lambda n: TTestIndPower().power(DIFFERENCE / unpaired, n, 0.05, ratio=1)
expected["unpaired"] = answer(unpaired, 6, DIFFERENCE, 0.95, power)

origin = f"scripts/design-vectors.py with statsmodels {statsmodels.__version__} and SciPy {scipy.__version__}"
vectors = {"origin": origin, "values": VALUES, "planned": PLANNED, "expected": expected}
path = pathlib.Path(__file__).parent.parent / "crates/engine/tests/engine/testdata/design.json"
path.write_text(json.dumps(vectors, indent=2, ensure_ascii=False, default=float) + "\n")
