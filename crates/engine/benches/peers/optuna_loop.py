"""Optuna's own loop on the functions of crates/engine/benches/search.rs: the values in the order of the trials, for each seed, as JSON.

Arguments: the function, the number of trials, the first seed, the seed after the last one, the standard deviation of the noise.
"""

import json
import math
import random
import sys
import warnings

import optuna

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)

ALPHA = [1.0, 1.2, 3.0, 3.2]
A = [
    [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
    [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
    [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
    [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
]
P = [
    [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
    [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
    [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
    [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
]


def branin(x):
    a, b = x
    return (
        (b - 5.1 / (4 * math.pi**2) * a * a + 5 / math.pi * a - 6) ** 2
        + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a)
        + 10
    )


def hartmann(x):
    return -sum(
        alpha * math.exp(-sum(a * (v - p) ** 2 for a, p, v in zip(row, place, x)))
        for alpha, row, place in zip(ALPHA, A, P)
    )


FUNCTIONS = {
    "Branin": (branin, [(-5, 10), (0, 15)]),
    "noisy Branin": (branin, [(-5, 10), (0, 15)]),
    "Hartmann-6": (hartmann, [(0, 1)] * 6),
}


def curve(sampler, function, bounds, trials, noise, seed):
    values = []
    errors = random.Random(seed)

    def objective(trial):
        x = [trial.suggest_float(f"x{i}", low, high) for i, (low, high) in enumerate(bounds)]
        values.append(function(x))
        return values[-1] + noise * errors.gauss(0, 1)

    optuna.create_study(sampler=sampler).optimize(objective, n_trials=trials)
    return values


def main():
    name, (trials, first, end), noise = sys.argv[1], map(int, sys.argv[2:5]), float(sys.argv[5])
    function, bounds = FUNCTIONS[name]
    samplers = {
        "TPE": lambda seed: optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True),
        "CMA-ES": lambda seed: optuna.samplers.CmaEsSampler(seed=seed),
    }
    found = {
        sampler: [curve(make(seed), function, bounds, trials, noise, seed) for seed in range(first, end)]
        for sampler, make in samplers.items()
    }
    json.dump(found, sys.stdout)


main()
