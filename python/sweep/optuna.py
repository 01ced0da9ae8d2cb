"""Samplers of Optuna as a program: one question in JSON on standard input, one answer on standard output.

``sweep`` runs it with ``python3 -c``, so the module itself need not be installed. Each call makes a study in memory,
adds the history, and asks for the next points. The answer follows from the question and from the version of Optuna.
"""

from __future__ import annotations

import json
import sys
from typing import Any

PROTOCOL = 1
# Relative difference of numbers that are the same, apart from digits that were left out.
TOLERANCE = 1e-9


def distributions(optuna: Any, space: list[dict[str, Any]]) -> dict[str, Any]:
    """The axes as Optuna's distributions. Choices are their indices: only texts and numbers are allowed there."""
    made = {}
    for axis in space:
        kind = axis["type"]
        if kind == "choice":
            made[axis["name"]] = optuna.distributions.CategoricalDistribution(list(range(len(axis["values"]))))
        elif kind == "int":
            made[axis["name"]] = optuna.distributions.IntDistribution(
                axis["low"], axis["high"], log=axis["log"], step=axis["step"]
            )
        else:
            made[axis["name"]] = optuna.distributions.FloatDistribution(
                axis["low"], axis["high"], log=axis["log"], step=axis["step"]
            )
    return made


def same(one: Any, other: Any) -> bool:
    """True if two values of a JSON text are the same: ``1`` and ``1.0`` are, ``1`` and ``True`` are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def encode(space: list[dict[str, Any]], point: dict[str, Any]) -> dict[str, Any]:
    """A point with the indices of its choices."""
    encoded = dict(point)
    for axis in space:
        name = axis["name"]
        if axis["type"] == "choice":
            encoded[name] = next(i for i, value in enumerate(axis["values"]) if same(value, point[name]))
        elif axis["type"] == "float":
            encoded[name] = float(point[name])
    return encoded


def decode(space: list[dict[str, Any]], params: dict[str, Any]) -> dict[str, Any]:
    """A point with its choices instead of their indices."""
    point = dict(params)
    for axis in space:
        if axis["type"] == "choice":
            point[axis["name"]] = axis["values"][params[axis["name"]]]
    return point


def close(space: list[dict[str, Any]], one: dict[str, Any], other: dict[str, Any]) -> bool:
    """True if two encoded points are the same, apart from digits that were left out."""
    for axis in space:
        a, b = one[axis["name"]], other[axis["name"]]
        if axis["type"] == "float":
            if abs(a - b) > TOLERANCE * max(abs(a), abs(b), 1e-300):
                return False
        elif a != b:
            return False
    return True


def tell(optuna: Any, study: Any, trial: Any, last: int, told: dict[str, Any]) -> None:
    """Ends a trial that was asked for as it ended."""
    if told["state"] != "done":
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    elif told["rung"] < last:
        trial.report(told["value"], told["rung"])
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    else:
        study.tell(trial, told["value"])


def add(optuna: Any, study: Any, space: list[dict[str, Any]], last: int, told: dict[str, Any]) -> None:
    """Adds a trial of the history. One that stopped at a lower rung is a pruned one, which ranks after all others."""
    state = optuna.trial.TrialState.COMPLETE if told["state"] == "done" else optuna.trial.TrialState.FAIL
    given: dict[str, Any] = {"value": told.get("value")}
    if told["state"] == "done" and told["rung"] < last:
        state = optuna.trial.TrialState.PRUNED
        given = {"intermediate_values": {told["rung"]: told["value"]}}
    study.add_trial(
        optuna.trial.create_trial(
            state=state,
            params=encode(space, told["point"]),
            distributions=distributions(optuna, space),
            **given,
        )
    )


def replay(optuna: Any, study: Any, question: dict[str, Any]) -> None:
    """Asks for all earlier batches again: the state of CMA-ES is not in its trials' values alone."""
    space, trials = question["space"], question["trials"]
    made = distributions(optuna, space)
    for batch in range(question["batch"]):
        told = [trial for trial in trials if trial["batch"] == batch]
        # A point that had been tried before was left out of its batch, so more may have been asked for than are there.
        asked = [study.ask(made) for _ in range(question["n"])]
        rest = list(told)
        for trial in asked:
            found = next((t for t in rest if close(space, encode(space, t["point"]), trial.params)), None)
            if found is None:
                earlier = next((t for t in trials if close(space, encode(space, t["point"]), trial.params)), None)
                if earlier is None:
                    raise SystemExit(
                        f"batch {batch} was not chosen by this version of Optuna ({optuna.__version__}); "
                        "install the version that chose it, or give the search another seed"
                    )
                found = earlier
            else:
                rest.remove(found)
            tell(optuna, study, trial, question["rungs"] - 1, found)


def sampler_of(optuna: Any, name: str, question: dict[str, Any]) -> Any:
    """The sampler. Its seed is that of the batch, or of the study if it has a state."""
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=question["seed"], multivariate=True, constant_liar=True)
    if name == "gp":
        import torch

        if int(torch.__version__.split(".")[0]) < 2:
            raise SystemExit(f"`optuna.gp` needs PyTorch 2 or later; {sys.executable} has {torch.__version__}")
        return optuna.samplers.GPSampler(seed=question["seed"], deterministic_objective=False)
    if name == "cmaes":
        seed = question["study_seed"]
        # Of choices and single values it draws at random.
        independent = optuna.samplers.RandomSampler(seed=seed)
        return optuna.samplers.CmaEsSampler(seed=seed, independent_sampler=independent)
    raise SystemExit(f"unknown sampler `{name}`")


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Answers a question."""
    if question["protocol"] != PROTOCOL:
        raise SystemExit(f"protocol {question['protocol']}; this program knows {PROTOCOL}")
    try:
        import warnings

        import optuna
    except ImportError as error:
        raise SystemExit(
            f"{error}; install Optuna for {sys.executable} (`pip install optuna`), or choose the sampler `tpe`"
        ) from None
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    name = question["sampler"].rpartition(".")[2]
    space = question["space"]
    direction = "minimize" if question["direction"] == "min" else "maximize"
    try:
        study = optuna.create_study(sampler=sampler_of(optuna, name, question), direction=direction)
        if name == "cmaes":
            replay(optuna, study, question)
        else:
            for trial in question["trials"]:
                add(optuna, study, space, question["rungs"] - 1, trial)
        made = distributions(optuna, space)
        points = [decode(space, study.ask(made).params) for _ in range(question["n"])]
    except ImportError as error:
        # A sampler imports what it needs when it is used: GPSampler needs torch, CmaEsSampler needs cmaes.
        raise SystemExit(f"{error}; `optuna.{name}` needs it, and {sys.executable} does not have it") from None
    return {"protocol": PROTOCOL, "name": f"optuna.{name}", "version": optuna.__version__, "points": points}


def main() -> None:
    """Reads a question and writes the answer."""
    # With `python3 -c` the working directory is searched first; a file named optuna.py there is not meant.
    if sys.path and sys.path[0] == "":
        del sys.path[0]
    question = json.load(sys.stdin)
    output = sys.stdout
    # Whatever a package prints is no part of the answer.
    sys.stdout = sys.stderr
    json.dump(answer(question), output)
    output.write("\n")


if __name__ == "__main__":
    main()
