"""The mixers that experiments on structure compare, all causal and of one width, and ways to run them.

Mixers of pictures (masked, row, diagonal) are left out: their positions are places of a plane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.core.mixer import Mixer, MixerSpec
from regard.core.probe import Record
from regard.core.state import Memory, State
from regard.core.view import View
from regard.mixers.attention import Attention
from regard.mixers.attentive import Attentive
from regard.mixers.convolution import Convolution
from regard.mixers.latent import Latent
from regard.mixers.mamba import Mamba
from regard.mixers.pool import Pool
from regard.mixers.recurrent import Recurrent
from regard.mixers.ssm import SSM
from regard.mixers.turing import Turing

SOURCE = 16  # vectors in the memory of who reads one
WINDOW, SKIP = 16, 8


@dataclass(frozen=True)
class Contestant:
    """A mixer, layer by layer, and how its operations come into the open."""

    layer: Callable[[int], MixerSpec]  # by the number of the layer, from 0
    opened: Literal["whole", "watched", "step by step"] = "whole"

    def build(self, width: int, layer: int = 0) -> Mixer:
        return self.layer(layer).build(width)


def repeat(spec: MixerSpec, opened: Literal["whole", "watched", "step by step"] = "whole") -> Contestant:
    """The same mixer in every layer."""
    return Contestant(lambda _: spec, opened)


# torch's fused kernels hide the loop of a recurrence, and our scan hides Mamba's: the first is in the open where
# somebody watches, the second where positions come one by one
LINEUP: Mapping[str, Contestant] = {
    "RNN": repeat(Recurrent(cell="rnn"), "watched"),
    "RNN, skip 8": repeat(Recurrent(cell="rnn", skip=SKIP), "watched"),
    "LSTM": repeat(Recurrent(cell="lstm"), "watched"),
    "GRU": repeat(Recurrent(cell="gru"), "watched"),
    "attentive GRU": repeat(Attentive(cell="gru")),
    "Turing machine": repeat(Turing(slots=16, size=8)),
    "attention": repeat(Attention(heads=1, causal=True)),
    "windowed attention": repeat(Attention(heads=1, causal=True, window=WINDOW)),
    "latent attention": repeat(Latent(heads=1, rank=16, size=16, rotary=8, value=16)),
    "convolution": repeat(Convolution(kernel=3, causal=True)),
    "dilated convolution": Contestant(lambda layer: Convolution(kernel=3, dilation=2**layer, causal=True)),
    "mean pooling": repeat(Pool(causal=True)),
    "S4D": repeat(SSM(states=16)),
    "Mamba": repeat(Mamba(), "step by step"),
}
SINGLE = tuple(name for name in LINEUP if name != "dilated convolution")  # whose first layer is no other's


def make_memory(mixer: Mixer, rows: int, width: int, dtype: torch.dtype = torch.float32) -> Memory | None:
    """Something to look at for a mixer that reads a memory; None: it reads none."""
    if not mixer.recalls:
        return None
    states = torch.randn(rows, SOURCE, width, generator=torch.Generator().manual_seed(0))
    return Memory(tensors=(states.to(dtype),))


def run_whole(mixer: Mixer, x: Tensor, memory: Memory | None = None) -> Tensor:
    """All positions at once, as training does it."""
    return mixer(x, View.of(x, memory=memory))


def run_openly(mixer: Mixer, x: Tensor, opened: str, memory: Memory | None = None) -> Tensor:
    """The same with every operation in the graph."""
    if opened == "step by step":
        state = begin(mixer, x, 0, memory)
        return torch.cat([advance_state(mixer, now, state, memory) for now in x.split(1, 1)], 1)
    probe = Record("*.impulse") if opened == "watched" else None
    return mixer(x, View.of(x, memory=memory, probe=probe))


def begin(mixer: Mixer, x: Tensor, room: int, memory: Memory | None = None) -> State:
    """What a mixer remembers before the first position; `room`: for how many to make room."""
    view = View.of(x[:, :0], memory=memory)
    view.room = room
    state = mixer.start(x.shape[0], view)
    assert state is not None  # all of them are causal, and none is alone
    return state


def advance_state(mixer: Mixer, x: Tensor, state: State, memory: Memory | None = None) -> Tensor:
    """Some more positions after those that a state holds."""
    return mixer(x, View.of(x, state=state, memory=memory), state)
