"""Whom a law is tried on: a mixer, however it came about, and how it is called.

A module of somebody else's that knows nothing of views and states is called as a mixer too, and the laws that need
these don't speak of it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.edges import Edges
from regard.core.grid import Grid
from regard.core.mixer import Mixer, MixerSpec
from regard.core.probe import Probe
from regard.core.state import Memory, State
from regard.core.view import View
from regard.laws.case import KEYS, ROWS, TIME

WIDTH = 16
GRID = Grid(4, 4, first=1)  # the picture that positions are places of
DISTANCES = (1, 3)  # between positions that are neighbours, for those who read graphs
SPREAD = 0.1  # of the numbers that stand in for weights which all start alike


class Foreign(Mixer):
    """A module that isn't ours, called as a mixer is."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        y: Tensor = self.inner(x)
        return y


@dataclass(frozen=True, eq=False)
class Subject:
    """A mixer on trial."""

    name: str
    make: Callable[[], Mixer]  # one of its own each time, always with the same weights
    width: int = WIDTH
    spec: MixerSpec | None = None
    memory_width: int | None = None  # of what it looks at; None: it looks at no memory
    causal: bool | None = None  # what is said of it; None: nothing is
    blind: bool = False  # its output doesn't depend on its input: the mean of a memory is the same for every query
    rounding: float | None = None  # what a change of later numbers may do to earlier ones; None: what rounding does

    @classmethod
    def describe(cls, spec: MixerSpec, name: str = "", width: int = WIDTH, rounding: float | None = None) -> Subject:
        """The mixer that a spec describes."""

        def make() -> Mixer:
            seed_weights()
            return vary_weights(spec.build(width)).eval()

        return cls(
            name or spec.kind,
            make,
            width,
            spec,
            memory_width=spec.memory_width(width),
            causal=spec.build(width).causal,
            blind=spec.ignores_input,
            rounding=rounding,
        )

    @cached_property
    def sample(self) -> Mixer:
        """One that is only asked what it is."""
        return self.make()

    @property
    def plain(self) -> bool:
        """Whether it is somebody else's module, without a view and without a state."""
        return isinstance(self.sample, Foreign)

    @property
    def over_memory(self) -> bool:
        return self.memory_width is not None

    @cached_property
    def looks_ahead(self) -> bool:
        """Whether a position changes when a later one does: what it says, or else what can be seen."""
        if self.causal is not None:
            return not self.causal
        x, at = self.draw(ROWS, TIME), TIME // 2
        changed = torch.cat((x[:, :at], x[:, at:] + 10), 1)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            mixer = self.make()
            before, after = (whole(mixer, each, self.remember(ROWS)) for each in (x, changed))
        return not torch.allclose(before[:, :at], after[:, :at], rtol=0, atol=self.allow(before, after))

    def allow(self, before: Tensor, after: Tensor) -> float:
        """By how much earlier outputs may differ where later inputs do: a Fourier transform adds all anew."""
        if self.rounding is not None:
            return self.rounding
        return 1e-6 * max(1.0, before.abs().max().item(), after.abs().max().item())

    def draw(self, rows: int = ROWS, time: int = TIME, seed: int = 2) -> Tensor:
        """Numbers to read: (rows, time, width)."""
        return torch.randn(rows, time, self.width, generator=torch.Generator().manual_seed(seed))

    def remember(self, rows: int = ROWS, keys: int = KEYS, seed: int = 3) -> Memory | None:
        """Something to look at, for those who do."""
        if self.memory_width is None:
            return None
        generator = torch.Generator().manual_seed(seed)
        states = torch.randn(rows, keys, self.memory_width, generator=generator)
        layers = 1 if self.spec is None else self.spec.fields().get("layers", 1)
        return Memory(tensors=(states,), final=torch.randn(rows, 2, layers, self.memory_width, generator=generator))


def seed_weights(seed: int = 1) -> None:
    """Draw the same weights again. Of this machine's generator alone: torch's own function costs a millisecond."""
    torch.default_generator.manual_seed(seed)


def vary_weights(module: Mixer) -> Mixer:
    """Give weights that all start alike, zeros or ones, numbers of their own: a product with 0 hides every fault."""
    with torch.no_grad():
        for weight in module.parameters():
            if weight.numel() > 1 and weight.is_floating_point() and bool((weight == weight.flatten()[0]).all()):
                weight.add_(torch.randn_like(weight), alpha=SPREAD)
    return module


def copy_module(module: nn.Module) -> Mixer:
    """A mixer of its own from one that is there already, in single precision and on this machine."""
    made = copy.deepcopy(module).cpu().float().eval()
    return made if isinstance(made, Mixer) else Foreign(made).eval()


def view_of(x: Tensor, valid: Tensor | None = None, state: State | None = None, **more: Any) -> View:
    """A view as a stack makes it, of positions that are places of a picture, for those who ask."""
    view = View.of(x, valid, state, **more)
    view.grid = GRID
    return view


def whole(
    mixer: Mixer, x: Tensor, memory: Memory | None, valid: Tensor | None = None, probe: Probe | None = None
) -> Tensor:
    """All at once."""
    y: Tensor = mixer(x, connect(view_of(x, valid, memory=memory, probe=probe), mixer))
    return y


def connect(view: View, mixer: Mixer) -> View:
    """The view with edges between real positions that stand 1 or 3 apart in their document, for those who ask."""
    mask = view.mask
    if not mixer.connects:
        return view
    real = torch.ones(mask.rows, mask.time, dtype=torch.bool) if mask.valid is None else mask.valid
    owners = torch.zeros(mask.rows, mask.time, dtype=torch.long) if mask.documents is None else mask.documents
    positions = mask.positions.expand(mask.rows, -1)
    near = ((positions[:, :, None] - positions[:, None]).abs()[..., None] == torch.tensor(DISTANCES)).any(-1)
    linked = near & real[:, :, None] & real[:, None] & (owners[:, :, None] == owners[:, None])
    row, one, other = linked.nonzero().unbind(1)
    view.edges = Edges(torch.stack((row * mask.time + one, row * mask.time + other)))
    return view


def begin(mixer: Mixer, x: Tensor, memory: Memory | None, room: int = 0) -> State | None:
    """What is remembered before the first of x."""
    view = view_of(x[:, :0], memory=memory)
    view.room = room
    return mixer.start(x.shape[0], view)


def follow(
    mixer: Mixer,
    x: Tensor,
    state: State | None,
    memory: Memory | None,
    valid: Tensor | None = None,
    probe: Probe | None = None,
) -> Tensor:
    """The next chunk."""
    y: Tensor = mixer(x, view_of(x, valid, state, memory=memory, probe=probe), state)
    return y


def pick_row(memory: Memory | None, row: int) -> Memory | None:
    """What one row looks at."""
    return None if memory is None else memory.select(torch.tensor([row]))
