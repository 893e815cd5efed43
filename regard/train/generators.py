"""The sources of chance that training draws from, of all of its processes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from regard.errors import CheckpointError
from regard.train.world import ALONE, World


def generators(device: torch.device, world: World = ALONE) -> dict[str, Tensor]:
    """The state of every source of chance that training draws from, of all processes: `cpu`, and `cpu.1` of rank 1."""
    found = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        found[device.type] = torch.get_device_module(device).get_rng_state()
    all_states = {name: world.gather(state) for name, state in found.items()}
    return {_name(kind, rank): state for kind, states in all_states.items() for rank, state in enumerate(states)}


def restore_generators(states: Mapping[str, Tensor], device: torch.device, world: World = ALONE) -> None:
    """Draw on from where a checkpoint was; a process that wasn't there then draws on as it would."""
    own = {kind: states[name] for kind in ("cpu", device.type) if (name := _name(kind, world.rank)) in states}
    try:
        if world.rank == 0 or "cpu" in own:
            torch.set_rng_state(own["cpu"])
        if device.type != "cpu" and device.type in own:
            torch.get_device_module(device).set_rng_state(own[device.type])
    except (KeyError, RuntimeError, TypeError) as error:
        raise CheckpointError(f"generators.safetensors: {error}") from None


def _name(kind: str, rank: int) -> str:
    return f"{kind}.{rank}" if rank else kind
