"""State of a PyTorch training in a checkpoint: networks, optimizers, schedulers, and all random number generators."""

from __future__ import annotations

import random
import sys
from typing import Any, Dict, List, Mapping, Optional

import torch

from ._checkpoint import checkpoint, resume
from ._ranks import rank, world_size

_FORMAT = 1


def save(*, step: Optional[int] = None, **objects: Any) -> None:
    """Writes a checkpoint and declares it.

        sweep.torch.save(model=model, optimizer=optimizer, scheduler=scheduler, best=best)

    An object with `state_dict` is saved by its state, anything else as it is. `step` is the last step whose work it
    contains, by default that of the loop. Every rank may call it; rank 0 writes.
    """
    states = {name: value.state_dict() for name, value in objects.items() if hasattr(value, "state_dict")}
    values = {name: value for name, value in objects.items() if name not in states}
    content = {"format": _FORMAT, "states": states, "values": values, "random": random_states()}
    if rank() != 0:
        return
    with checkpoint("state.pt", step=step) as path:
        torch.save(content, path)


def load(**objects: Any) -> Optional[Dict[str, Any]]:
    """Restores the newest checkpoint of an earlier attempt, if there is one; answers its plain values, or else None.

        restored = sweep.torch.load(model=model, optimizer=optimizer, scheduler=scheduler)
        best = restored["best"] if restored else math.inf

    Call it before the loop over `sweep.steps`, which then starts where the checkpoint ends, and after the objects are
    on their device. The generators are restored too, except on ranks other than 0, whose states are not saved. Raises
    `ValueError` if the checkpoint does not contain exactly these objects.
    """
    path = resume()
    if path is None:
        return None
    # It was written by this job, and contains Python's own states.
    content = torch.load(path, map_location="cpu", **_all_kinds())
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError(f"{path} was not written by `sweep.torch.save`")
    states: Mapping[str, Any] = content["states"]
    if set(states) != set(objects):
        has, wants = (", ".join(sorted(names)) or "nothing" for names in (states, objects))
        raise ValueError(f"the checkpoint {path} has the states of {has}; `sweep.torch.load` was given {wants}")
    for name, value in objects.items():
        value.load_state_dict(states[name])
    if world_size() == 1 or rank() == 0:
        restore_random(content["random"])
    values: Dict[str, Any] = content["values"]
    return values


def random_states() -> Dict[str, Any]:
    """The states of the generators of Python, NumPy (if it is imported), PyTorch, and each GPU."""
    states: Dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        states["numpy"] = numpy.random.get_state()
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def restore_random(states: Mapping[str, Any]) -> None:
    """Restores what `random_states` has answered, as far as it exists here."""
    random.setstate(states["python"])
    torch.set_rng_state(states["torch"])
    if "numpy" in states:
        import numpy

        numpy.random.set_state(states["numpy"])
    cuda: List[Any] = states.get("cuda", [])
    if cuda and torch.cuda.is_available() and len(cuda) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(cuda)


def _all_kinds() -> Dict[str, Any]:
    """The argument that permits other values than tensors, where PyTorch has it."""
    import inspect

    return {"weights_only": False} if "weights_only" in inspect.signature(torch.load).parameters else {}
