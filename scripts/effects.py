"""Writes crates/stats/src/stats/testdata/effects.json: factorial effects, Shapley shares and quantiles of the studentized maximum
modulus, computed with statsmodels and SciPy, independently of the program.

    python3 scripts/effects.py > crates/stats/src/stats/testdata/effects.json

Main effects are differences of estimated marginal means, interactions differences of such differences, each as a linear
hypothesis about an ordinary least squares fit. Shares are averages over all orders of the factors.
"""

import itertools
import json
import math
import platform

import numpy as np
import pandas as pd
import scipy
import statsmodels
import statsmodels.api as sm
import statsmodels.formula.api as smf
from patsy import dmatrices, dmatrix
from scipy import integrate, optimize, stats
from statsmodels.stats.anova import anova_lm

rng = np.random.default_rng(19)


def fit(cells, values, blocked, formula):
    rows = [
        {"y": y, "block": str(b), "cell": str(c), **{f"f{i}": level for i, level in enumerate(cell)}}
        for c, (cell, ys) in enumerate(zip(cells, values))
        for b, y in enumerate(ys)
    ]
    frame = pd.DataFrame(rows)
    saturated = smf.ols("y ~ C(cell)" + (" + C(block)" if blocked else ""), frame).fit()
    table = anova_lm(saturated, typ=1)
    # The mean of the model at each cell, averaged over the blocks, as a linear function of the coefficients.
    observed, design = dmatrices(formula + (" + C(block)" if blocked else ""), frame)
    model = sm.OLS(np.asarray(observed), np.asarray(design)).fit()
    blocks = sorted(frame["block"].unique()) if blocked else ["0"]

    def at(cell):
        rows = pd.DataFrame([{"block": b, **{f"f{i}": level for i, level in enumerate(cell)}} for b in blocks])
        return np.asarray(dmatrix(design.design_info, rows)).mean(axis=0)

    return saturated, table.loc["C(cell)", "PR(>F)"], model, at


def design(name, levels, cells, blocks, effects, blocked=True, formula=None, uneven=False, together=False):
    """`effects` maps terms to weights of cells' means in the model, a function of the cells."""
    truth = rng.normal(0, 2, len(cells))
    shared = rng.normal(0, 1, blocks)
    values = []
    for index, mean in enumerate(truth):
        n = blocks + (index % 3 if uneven else 0)
        shift = shared if blocked else np.zeros(n)
        values.append([round(3 + mean + shift[b] + rng.normal(0, 0.7), 6) for b in range(n)])
    formula = formula or "y ~ " + " * ".join(f"C(f{i})" for i in range(len(levels)))
    saturated, equality, model, at = fit(cells, values, blocked, formula)
    found = []
    for terms in effects:
        weights = sum_of(levels, terms, at)
        # The error is that of the saturated model: repetitions only, no lack of fit.
        covariance = model.normalized_cov_params * saturated.mse_resid
        found.append({
            "terms": terms,
            "value": float(weights @ model.params),
            "error": float(math.sqrt(weights @ covariance @ weights)),
        })
    return {
        "name": name, "levels": levels, "cells": cells, "values": values, "blocked": blocked, "together": together,
        "variance": float(saturated.mse_resid), "freedom": float(saturated.df_resid), "equality": float(equality),
        "effects": found,
        "shares": shares_of(levels, [np.mean(ys) for ys in values]) if cells == full(levels) else None,
    }


def sum_of(levels, terms, at):
    """The linear function of an effect: over all combinations of the other factors, with equal weights."""
    others = [i for i in range(len(levels)) if i not in [f for f, _ in terms]]
    total = 0
    grid = list(itertools.product(*[range(levels[i]) for i in others]))
    for combination in grid:
        for signs in itertools.product([0, 1], repeat=len(terms)):
            cell = [0] * len(levels)
            for i, level in zip(others, combination):
                cell[i] = level
            for (factor, level), changed in zip(terms, signs):
                cell[factor] = level if changed else 0
            total = total + (-1) ** (len(terms) - sum(signs)) * at(cell)
    return total / len(grid)


def full(levels):
    return [list(cell) for cell in itertools.product(*[range(n) for n in levels])]


def all_effects(levels, interactions=True):
    main = [[[f, l]] for f, n in enumerate(levels) for l in range(1, n)]
    pairs = [
        [[f, a], [g, b]]
        for f, g in itertools.combinations(range(len(levels)), 2)
        for a in range(1, levels[f])
        for b in range(1, levels[g])
    ]
    return main + (pairs if interactions else [])


def shares(levels):
    means = [round(float(x), 6) for x in rng.normal(0, 1, math.prod(levels))]
    return {"levels": levels, "means": means, "shares": shares_of(levels, means)}


def shares_of(levels, means):
    grid = np.array(means).reshape(levels)
    k = len(levels)

    def explained(kept):
        return grid.mean(axis=tuple(i for i in range(k) if i not in kept)).var() if kept else 0.0

    total = np.zeros(k)
    for order in itertools.permutations(range(k)):
        for place, factor in enumerate(order):
            total[factor] += explained(order[: place + 1]) - explained(order[:place])
    return list(total / total.sum())


def modulus(count, freedom, level):
    """Quantile of max |t| of independent normal numbers over one chi estimate."""
    chi = stats.chi(freedom)

    def below(x):
        inner = lambda q: math.erf(x * chi.ppf(q) / math.sqrt(freedom) / math.sqrt(2)) ** count
        points = [1e-6, 1e-4, 1e-2, 0.1, 0.5, 0.9, 0.99]
        return integrate.quad(inner, 0, 1, points=points, limit=2000, epsabs=1e-12, epsrel=1e-12)[0]

    bonferroni = stats.t.ppf(1 - (1 - level) / count / 2, freedom)
    single = stats.t.ppf(0.5 + level / 2, freedom)
    if count == 1:
        quantile = single
    else:
        quantile = optimize.brentq(lambda x: below(x) - level, 0.999 * single, 1.001 * bonferroni, xtol=1e-12, rtol=1e-12)
    return {"count": [count], "freedom": freedom, "level": level, "quantile": float(quantile)}


half4 = [c for c in full([2] * 4) if sum(c) % 2 == 0]
print(json.dumps({
    "origin": f"scripts/effects.py, statsmodels {statsmodels.__version__}, SciPy {scipy.__version__}, "
    f"NumPy {np.__version__}, Python {platform.python_version()}",
    "designs": [
        design("2 x 2, three seeds", [2, 2], full([2, 2]), 3, all_effects([2, 2])),
        design("2 x 2 x 2, two seeds", [2] * 3, full([2] * 3), 2, all_effects([2] * 3)),
        design("3 x 2 x 4, three seeds", [3, 2, 4], full([3, 2, 4]), 3, all_effects([3, 2, 4])),
        design("2 x 3, independent, uneven", [2, 3], full([2, 3]), 2, all_effects([2, 3]), blocked=False, uneven=True),
        design("add-one", [3, 2, 2], [[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0], [0, 0, 1]], 3,
               all_effects([3, 2, 2], False), formula="y ~ C(f0) + C(f1) + C(f2)", together=True),
        design("half of 2^4", [2] * 4, half4, 2, all_effects([2] * 4, False),
               formula="y ~ C(f0) + C(f1) + C(f2) + C(f3)", together=True),
    ],
    "shares": [shares([2]), shares([2, 2]), shares([3, 2, 4]), shares([2] * 6), shares([2, 1, 3])],
    "modulus": [
        modulus(*case)
        for case in [(1, 1, 0.95), (2, 10, 0.95), (3, 2, 0.95), (3, 3, 0.95), (3, 6, 0.95), (7, 14, 0.95), (20, 5, 0.99), (1, 30, 0.99),
                     (78, 8190, 0.95), (10, 1, 0.9), (5, 120, 0.95 + 0.05 * 0.9)]
    ],
}, indent=1))
