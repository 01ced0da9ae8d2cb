"""Costs of a call of `sweep.report`, beside that of an empty function, in microseconds.

    python3 bench_report.py [CALLS]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))

#: Rounds of calls.
ROUNDS = 200


def empty(step: int, **values: float) -> bool:
    """Does nothing."""
    return False


def cost(function: Callable[..., bool], calls: int) -> float:
    """The least mean time of a call, in microseconds, of all rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for step in range(calls):
            function(step, loss=2.5 / (step + 1), accuracy=0.5, lr=1e-3)
        best = min(best, (time.perf_counter() - began) / calls)
    return best * 1e6


def main() -> None:
    """Prints the costs."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    with tempfile.TemporaryDirectory() as folder:
        variables = {"SWEEP_CONTRACT": "1", "SWEEP_REPORT": f"{folder}/report", "SWEEP_STOP": f"{folder}/stop"}
        os.environ.update(variables)
        import sweep

        nothing = cost(empty, calls)
        report = cost(sweep.report, calls)
        lines = ROUNDS * calls
        print(f"an empty function: {nothing:6.2f} µs a call")
        print(f"sweep.report:      {report:6.2f} µs a call, with three values ({lines} lines)")


if __name__ == "__main__":
    main()
