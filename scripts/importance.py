"""Writes crates/stats/src/stats/testdata/importance.json: functional analyses of variance, computed independently of the program.

    python3 scripts/importance.py > crates/stats/src/stats/testdata/importance.json

The shares of full factorials come from the decomposition by inclusion and exclusion over all subsets of the factors. Those
of single trees are Optuna's for trees of scikit-learn, in the boxes that the trees' thresholds make. Those of forests are
Optuna's FanovaImportanceEvaluator, whose trees are drawn differently, so that they agree only roughly; it gives a category a column
for each of its values, and averages over combinations of these columns that do not exist, so that its shares of spaces with
categories are off. The exact shares of the functions are beside them.
"""

import itertools
import json
import math
import platform
import warnings

import numpy as np
import optuna
import sklearn
from optuna.importance import FanovaImportanceEvaluator
from optuna.importance._fanova._tree import _FanovaTree
from sklearn.tree import DecisionTreeRegressor

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
rng = np.random.default_rng(21)


def factorial(levels):
    """A full factorial with shuffled rows."""
    grid = np.array(list(itertools.product(*[range(n) for n in levels])))
    main = [rng.normal(0, scale, n) for scale, n in zip([2.0, 1.0, 0.5, 0.2], levels)]
    both = rng.normal(0, 0.8, (levels[0], levels[1]))
    y = np.array([sum(m[i] for m, i in zip(main, row)) + both[row[0], row[1]] + rng.normal(0, 0.1) for row in grid])
    cube = y.reshape(levels)
    factors = range(len(levels))
    parts, effects = {(): 0.0}, {(): cube.mean()}
    for size in range(1, len(levels) + 1):
        for subset in itertools.combinations(factors, size):
            others = tuple(f for f in factors if f not in subset)
            effect = cube.mean(axis=others, keepdims=True) if others else cube
            for smaller in effects:
                if set(smaller) < set(subset):
                    effect = effect - effects[smaller]
            effects[subset] = effect
            parts[subset] = float((effect**2).mean())
    total = float(cube.var())
    order = rng.permutation(len(y))
    return {
        "levels": levels,
        "rows": grid[order].tolist(),
        "values": y[order].tolist(),
        "alone": [parts[(f,)] / total for f in factors],
        "whole": [sum(v for s, v in parts.items() if f in s) / total for f in factors],
    }


def boxes(tree, bounds):
    """The boxes of a tree with their values."""
    found, open_ = [], [(0, [list(side) for side in bounds])]
    while open_:
        node, sides = open_.pop()
        feature = tree.feature[node]
        if feature < 0:
            found.append({"sides": sides, "value": float(tree.value[node][0][0])})
            continue
        cut = float(tree.threshold[node])
        left, right = [list(s) for s in sides], [list(s) for s in sides]
        left[feature][1], right[feature][0] = cut, cut
        open_ += [(tree.children_left[node], left), (tree.children_right[node], right)]
    return found


def single():
    """A tree of scikit-learn with Optuna's variances."""
    bounds = np.array([[0.0, 1.0], [-2.0, 3.0], [10.0, 20.0]])
    x = rng.uniform(bounds[:, 0], bounds[:, 1], (60, 3))
    y = np.sin(6 * x[:, 0]) + 0.3 * x[:, 1] ** 2 + 0.1 * x[:, 0] * x[:, 2]
    model = DecisionTreeRegressor(random_state=0, max_depth=6).fit(x, y)
    tree = _FanovaTree(model.tree_, bounds)
    factors = range(3)
    without = [np.array([f for f in factors if f != other]) for other in factors]
    return {
        "bounds": bounds.tolist(),
        "cells": boxes(model.tree_, bounds.tolist()),
        "alone": [float(tree.get_marginal_variance(np.array([f])) / tree.variance) for f in factors],
        "whole": [float(1 - tree.get_marginal_variance(w) / tree.variance) for w in without],
    }


ACTIVATIONS = {"relu": 0.5, "gelu": 0.0, "tanh": 1.5}


def loss(lr, dropout, depth, act):
    """A function of the logarithm of `lr` and others, with an interaction of `depth` and `dropout`."""
    return (lr + 3) ** 2 + 2 * dropout + act + 0.15 * (depth - 5) ** 2 * dropout


def exact(acts):
    """The shares of main effects, on a fine grid."""
    axes = [np.linspace(-5, -1, 81), np.linspace(0, 0.6, 41), np.arange(1.0, 9.0), np.array(acts)]
    cube = loss(*np.meshgrid(*axes, indexing="ij"))
    others = [tuple(o for o in range(4) if o != f) for f in range(4)]
    return [float(cube.mean(axis=o).var() / cube.var()) for o in others]


def forest(n, category):
    """Configurations drawn at random, with exact shares, and with those that Optuna's evaluator finds."""
    space = {
        "lr": optuna.distributions.FloatDistribution(1e-5, 1e-1, log=True),
        "dropout": optuna.distributions.FloatDistribution(0.0, 0.6),
        "depth": optuna.distributions.IntDistribution(1, 8),
        "idle": optuna.distributions.FloatDistribution(0.0, 1.0),
    }
    if category:
        space["act"] = optuna.distributions.CategoricalDistribution(list(ACTIVATIONS))
    study, rows, values = optuna.create_study(), [], []
    for _ in range(n):
        row = {
            "lr": float(10 ** rng.uniform(-5, -1)),
            "dropout": float(rng.uniform(0, 0.6)),
            "depth": int(rng.integers(1, 9)),
            "idle": float(rng.uniform()),
        }
        act = list(ACTIVATIONS)[rng.integers(3)]
        if category:
            row["act"] = act
        value = loss(math.log10(row["lr"]), row["dropout"], row["depth"], ACTIVATIONS[act] if category else 0.0)
        study.add_trial(optuna.trial.create_trial(params=row, distributions=space, value=value))
        rows.append(row)
        values.append(value)
    shares = {name: [] for name in space}
    for seed in range(5):
        found = FanovaImportanceEvaluator(seed=seed).evaluate(study)
        for name in space:
            shares[name].append(found[name])
    true = dict(zip(["lr", "dropout", "depth", "act"], exact(list(ACTIVATIONS.values()) if category else [0.0])))
    return {
        "rows": rows,
        "values": values,
        "exact": {name: true.get(name, 0.0) for name in space},
        "optuna": {name: float(np.mean(own)) for name, own in shares.items()},
    }


print(json.dumps({
    "origin": f"scripts/importance.py, Optuna {optuna.__version__}, scikit-learn {sklearn.__version__}, "
    f"NumPy {np.__version__}, Python {platform.python_version()}",
    "factorials": [factorial([3, 4]), factorial([2, 3, 4]), factorial([3, 2, 2, 5])],
    "tree": single(),
    "forests": [forest(80, False), forest(300, False), forest(300, True)],
}, indent=1))
