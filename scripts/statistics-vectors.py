#!/usr/bin/env python3
"""Computes what the tests of `crates/stats/src/stats` compare with, from independent implementations, and writes it to
`crates/stats/src/stats/testdata/`:

    pip install scipy statsmodels rliable baycomp 'pandas<3'
    python3 scripts/statistics-vectors.py [NAME ...]

Names are those of the files: range, dunnett, blocks, sequential, power, equivalence, aggregate. All of them take some minutes.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy import stats

FOLDER = Path(__file__).resolve().parent.parent / "crates" / "stats" / "src" / "stats" / "testdata"
LEVELS = [0.9, 0.95, 0.99]


def studentized_range():
    # From 1e5 degrees of freedom on, SciPy answers with the limit of infinitely many.
    rows, freedoms = [2, 3, 5, 13, 50], [1, 2, 4, 12, 24, 120, 99_999, float("inf")]
    quantiles = []
    for k in rows:
        for nu in freedoms:
            for level in LEVELS:
                q = float(stats.studentized_range.ppf(level, k, nu))
                quantiles.append({"rows": k, "freedom": min(nu, 1e300), "level": level, "q": q,
                                  "sf": float(stats.studentized_range.sf(q, k, nu))})
    tails = [{"rows": k, "freedom": nu, "q": q, "sf": float(stats.studentized_range.sf(q, k, nu))}
             for k in [2, 5, 13, 200] for nu in [1, 3, 24, 1000] for q in [0.1, 1.0, 3.0, 6.0]]
    return {"origin": f"SciPy {version('scipy')}: stats.studentized_range.ppf, sf", "quantiles": quantiles, "tails": tails}


def dunnett():
    from scipy import integrate, special

    # Gauss and Legendre over the normal density.
    nodes, weights = np.polynomial.legendre.leggauss(200)
    nodes, weights = 9 * nodes, 9 * weights * stats.norm.pdf(9 * nodes)

    def sf(t, k, nu):
        # The baseline's mean at z, the others within t standard errors of it, over the distribution of the error.
        def inner(s):
            w = np.sqrt(2) * t * s
            return float(weights @ (special.ndtr(nodes + w) - special.ndtr(nodes - w)) ** k)
        if nu > 1e100:
            return 1 - inner(1.0)
        density = lambda s: np.exp(np.log(2) + nu / 2 * np.log(nu / 2) - special.gammaln(nu / 2) + (nu - 1) * np.log(s) - nu * s * s / 2)
        edges = [1e-12, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 6, 9]
        parts = [integrate.quad(lambda s: density(s) * inner(s), a, b, epsabs=1e-12, epsrel=1e-10, limit=100)[0]
                 for a, b in zip(edges, edges[1:])]
        return 1 - sum(parts)

    tails = [{"comparisons": k, "freedom": min(nu, 1e300), "t": t, "sf": float(sf(t, k, nu))}
             for k in [1, 2, 5, 12, 40] for nu in [2, 8, 24, float("inf")] for t in [0.5, 2.0, 3.5]]
    examples = []
    rng = np.random.default_rng(11)
    for counts in [3, 5]:
        values = np.round(rng.normal(size=(4, counts)) + np.array([0, 0.4, 1.5, -2.0])[:, None], 6)
        found = stats.dunnett(*values[1:], control=values[0], rng=np.random.default_rng(1))
        sd = float(np.sqrt(values.var(axis=1, ddof=1).mean()))
        examples.append({"rows": values.tolist(), "sd": sd, "freedom": 4 * (counts - 1), "statistic": found.statistic.tolist(), "p": found.pvalue.tolist()})
    origin = (f"SciPy {version('scipy')}: integrate.quad over special.ndtr; stats.dunnett (random integration, error about 1e-4)")
    return {"origin": origin, "tails": tails, "examples": examples}


def blocks():
    from statsmodels.stats.libqsturng import psturng
    from statsmodels.stats.multicomp import pairwise_tukeyhsd

    rng = np.random.default_rng(5)
    complete = []
    for rows, count in [(2, 2), (3, 2), (5, 3), (13, 3), (4, 10)]:
        values = np.round(rng.normal(size=(rows, count)) + rng.normal(size=count) * 3 + np.arange(rows)[:, None] * 0.4 + 20, 6)
        # Two-way analysis of variance by least squares.
        design = np.zeros((rows * count, rows + count - 1))
        for i in range(rows):
            for j in range(count):
                design[i * count + j, i] = 1
                if j:
                    design[i * count + j, rows + j - 1] = 1
        _, squares, rank, _ = np.linalg.lstsq(design, values.ravel(), rcond=None)
        freedom = rows * count - rank
        residual = values.ravel() - design @ np.linalg.lstsq(design, values.ravel(), rcond=None)[0]
        sd = float(np.sqrt(residual @ residual / freedom))
        honest = {str(level): float(stats.studentized_range.ppf(level, rows, freedom) * sd / np.sqrt(count)) for level in LEVELS}
        difference = float(values[0].mean() - values[-1].mean())
        p = float(stats.studentized_range.sf(abs(difference) * np.sqrt(count) / sd, rows, freedom))
        complete.append({"rows": values.tolist(), "sd": sd, "freedom": int(freedom), "honest": honest, "p": p})
    groups = []
    for counts in [(2, 2), (3, 2, 4), (5, 5, 5, 5), (2, 7, 3, 3, 1)]:
        values = [np.round(rng.normal(size=n) + i * 0.7, 6) for i, n in enumerate(counts)]
        labels = np.concatenate([[i] * n for i, n in enumerate(counts)])
        result = pairwise_tukeyhsd(np.concatenate(values), labels, alpha=0.05)
        # Its p-values are from a table of few digits, so they are computed from SciPy's distribution.
        pairs = [(i, j) for i in range(len(counts)) for j in range(i + 1, len(counts))]
        freedom = sum(counts) - len(counts)
        q = np.abs(result.meandiffs) / result.std_pairs
        sf = stats.studentized_range.sf(q, len(counts), freedom)
        groups.append({"rows": [v.tolist() for v in values], "pairs": [
            {"first": i, "second": j, "difference": float(-result.meandiffs[n]), "half": float((result.confint[n][1] - result.confint[n][0]) / 2),
             "p": float(sf[n])} for n, (i, j) in enumerate(pairs)]})
    origin = (f"NumPy {version('numpy')} (least squares of the two-way layout) with SciPy {version('scipy')}; "
              f"statsmodels {version('statsmodels')}: pairwise_tukeyhsd")
    return {"origin": origin, "complete": complete, "groups": groups}


def looks(sizes, levels, paths, seed):
    """Which of the simulated samples are excluded at each look, at the levels of the looks."""
    rng = np.random.default_rng(seed)
    bounds = {n: stats.t.ppf(0.5 + level / 2, n - 1) for n, level in zip(sizes, levels)}
    first = np.zeros(paths, int)
    total, squares = np.zeros(paths), np.zeros(paths)
    for n in range(1, max(sizes) + 1):
        x = rng.normal(size=paths)
        total += x
        squares += x * x
        if n in bounds:
            sd = np.sqrt((squares - total**2 / n) / (n - 1))
            out = np.abs(total / n) > bounds[n] * sd / np.sqrt(n)
            first[(first == 0) & out] = n
    return first


def sequential():
    cases = []
    paths = 4_000_000
    for sizes, levels in [
        (list(range(2, 11)), [0.95] * 9),
        (list(range(2, 11)), [1 - 0.05 / 9] * 9),
        (list(range(2, 11)), [1 - 0.0098] * 9),
        (list(range(3, 31)), [0.99] * 28),
        ([3, 5, 10], [0.95] * 3),
        ([3, 5, 10], [0.98] * 3),
        ([2, 20], [0.97] * 2),
        ([3, 40, 60], [0.95] * 3),
        ([3, 5, 6, 7, 8], [0.95, 0.95, 0.99, 0.99, 0.99]),
        ([2, 3, 4], [0.5, 0.9, 0.6]),
    ]:
        first = looks(sizes, levels, paths, 7)
        share = float(np.mean(first > 0))
        cases.append({"looks": [list(pair) for pair in zip(sizes, levels)], "paths": paths, "error": share,
                      "standard_error": float(np.sqrt(share * (1 - share) / paths))})
    return {"origin": f"NumPy {version('numpy')}: {paths} simulated sequences of each case, levels by SciPy {version('scipy')}",
            "cases": cases}


def power():
    from scipy.integrate import quad
    from statsmodels.stats.power import TTestIndPower, TTestPower

    one, two = TTestPower(), TTestIndPower()

    def exact(center, nu, level):
        """Quadrature over the deviation, because the noncentral t distribution of SciPy is NaN in far tails."""
        t = stats.t.ppf(0.5 + level / 2, nu)
        given = lambda s: (stats.norm.sf(t * s - center) + stats.norm.cdf(-t * s - center)) * stats.chi.pdf(s * np.sqrt(nu), nu) * np.sqrt(nu)
        edge = abs(center) / t
        points = sorted({0.0, 0.3 * edge, 0.7 * edge, edge, 1.3 * edge, 2 * edge, 0.5, 0.8, 1.0, 1.2, 2.0, 4.0, 9.0})
        return float(sum(quad(given, a, b, epsabs=1e-13, limit=200)[0] for a, b in zip(points, points[1:])))

    def checked(theirs, ours):
        assert np.isnan(theirs) or abs(theirs - ours) < 1e-8, (theirs, ours)
        return ours

    cases = []
    for effect in [0.0, 0.2, 0.8, 1.2, 3.0, 11.6, -1.2]:
        for n in [2, 3, 5, 10, 30, 200]:
            for level in [0.9, 0.95, 0.99]:
                paired = checked(one.power(effect, n, 1 - level), exact(effect * np.sqrt(n), n - 1, level))
                unpaired = checked(two.power(effect, n, 1 - level), exact(effect * np.sqrt(n / 2), 2 * n - 2, level))
                cases.append({"effect": effect, "n": n, "level": level, "paired": paired, "unpaired": unpaired})
    needed = []
    for effect, wanted in [(0.3, 0.8), (0.5, 0.9), (1.0, 0.8), (1.7, 0.8), (3.3, 0.8), (3.4, 0.8), (11.7, 0.8)]:
        def count(test):
            return next(n for n in range(2, 10_000) if test.power(effect, n, 0.05) >= wanted)
        needed.append({"effect": effect, "power": wanted, "paired": count(one), "unpaired": count(two)})
    return {"origin": f"statsmodels {version('statsmodels')}: TTestPower and TTestIndPower, and SciPy {version('scipy')} where they are NaN",
            "cases": cases, "needed": needed}


def equivalence():
    import baycomp

    rng = np.random.default_rng(3)
    cases = []
    for n in [2, 3, 5, 10, 50]:
        for region in [0.0, 0.3, 1.0]:
            differences = np.round(rng.normal(0.2, 0.7, size=n), 6)
            mean, error = differences.mean(), differences.std(ddof=1) / np.sqrt(n)
            less, more = stats.t.cdf(-region, n - 1, mean, error), stats.t.sf(region, n - 1, mean, error)
            # Its posterior with the variance of independent measurements; its first side is the one whose scores are larger.
            probs = baycomp.single.Posterior(mean, error**2, n - 1, region).probs()
            wins = probs if len(probs) == 3 else (probs[0], 0.0, probs[1])
            assert np.allclose(wins, (less, 1 - less - more, more), atol=1e-9), (wins, less, more)
            cases.append({"differences": differences.tolist(), "region": region, "less": float(less),
                          "equivalent": float(1 - less - more), "more": float(more)})
    return {"origin": f"SciPy {version('scipy')}: stats.t, equal to baycomp {version('baycomp')}: single.Posterior", "cases": cases}


def aggregate():
    from rliable import library, metrics

    rng = np.random.default_rng(11)
    cases = []
    for tasks, runs, others in [(1, 5, 5), (4, 3, 5), (10, 5, 5), (26, 10, 10)]:
        x = np.round(rng.gamma(2.0, size=(runs, tasks)) + 0.2, 1 if tasks == 4 else 6)
        y = np.round(rng.gamma(2.0, size=(others, tasks)), 1 if tasks == 4 else 6)
        iqm, iqm_interval = library.get_interval_estimates(
            {"x": x}, lambda scores: np.array([metrics.aggregate_iqm(scores)]), reps=50_000,
            random_state=np.random.RandomState(1))
        better, better_interval = library.get_interval_estimates(
            {"x,y": (x, y)}, metrics.probability_of_improvement, reps=5_000, random_state=np.random.RandomState(1))
        cases.append({"x": x.T.tolist(), "y": y.T.tolist(),
                      "iqm": float(iqm["x"][0]), "iqm_interval": iqm_interval["x"].ravel().tolist(),
                      "better": float(better["x,y"]), "better_interval": better_interval["x,y"].ravel().tolist()})
    return {"origin": f"rliable {version('rliable')}: metrics.aggregate_iqm, metrics.probability_of_improvement, "
                      "library.get_interval_estimates (percentile intervals of 50,000 and 5,000 draws)", "cases": cases}


VECTORS = {"range": studentized_range, "dunnett": dunnett, "blocks": blocks,
           "sequential": sequential, "power": power,
           "equivalence": equivalence, "aggregate": aggregate}

if __name__ == "__main__":
    for name in sys.argv[1:] or VECTORS:
        text = json.dumps(VECTORS[name](), indent=1)
        (FOLDER / f"{name}.json").write_text(text + "\n")
        print(name, len(text))
