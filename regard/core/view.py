"""The view: all that a module may know about the call beside its input."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.core.edges import Edges
from regard.core.grid import Grid
from regard.core.mask import Mask
from regard.core.padding import Padding
from regard.core.probe import Probe, See
from regard.core.state import Memory, State
from regard.errors import InputError

T = TypeVar("T")


@dataclass
class View:
    """One call's mask, memory, probe and extras."""

    mask: Mask
    memory: Memory | None = None
    probe: Probe | None = None
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    bias: nn.Module | None = None  # relative positions that a whole stack shares
    room: int = 0  # positions to allocate ahead when a state is started
    grid: Grid | None = None  # the picture that the positions are places of, if they are
    edges: Edges | None = None  # which positions are neighbours, if they are nodes of graphs
    scattered: Tensor | None = None  # places that stand for the positions, in their order: (1 or rows, time)
    dtype: torch.dtype = torch.float32  # the model's, and so that of what it remembers
    again: bool = False  # True: computed a second time for its gradients, so that nobody takes note of it
    _made: dict[Hashable, object] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.memory is not None and self.mask.documents is not None:
            raise InputError("a memory belongs to one sentence, and these rows pack documents", "one document a row")

    @classmethod
    def of(
        cls,
        x: Tensor,
        valid: Tensor | Padding | None = None,
        state: State | None = None,
        *,
        memory: Memory | None = None,
        probe: Probe | None = None,
        documents: Tensor | None = None,
        edges: Edges | None = None,
    ) -> View:
        """The view of a chunk (batch, time, …) that follows what a state holds."""
        past = 0 if state is None else state.past
        mask = Mask(x.shape[0], x.shape[1], valid, past, x.device, documents)
        return cls(mask, memory, probe, edges=edges, dtype=x.dtype if x.is_floating_point() else torch.float32)

    @property
    def positions(self) -> Tensor:
        """How many real tokens came before each: (1 or rows, time)."""
        return self.mask.positions

    @property
    def places(self) -> Tensor:
        """Where tokens stand, as absolute and rotary positions see it: their positions, unless they were scattered."""
        return self.positions if self.scattered is None else self.scattered

    @property
    def device(self) -> torch.device | str | None:
        return self.mask.device

    @property
    def precise(self) -> torch.dtype:
        """For sums over many positions, which rounding would spoil: single precision at least."""
        return torch.promote_types(self.dtype, torch.float32)

    @property
    def links(self) -> Tensor:
        """From where to where edges lead, counting places through all rows: (2, edges)."""
        return (Edges.none(self.device) if self.edges is None else self.edges).links

    def zeros(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Room for a new state, of the model's type unless another is given."""
        return torch.zeros(shape, dtype=dtype or self.dtype, device=self.device)

    @property
    def apart(self) -> View:
        """The same call with each packed document in a row of its own; that is how a probe sees it, too."""
        return self.once(
            "apart",
            lambda: View(
                self.mask.apart.mask,
                probe=self.probe,
                bias=self.bias,
                grid=self.grid,
                edges=None if self.edges is None else self.edges.move(self.mask.apart.home.flatten()),
                dtype=self.dtype,
                again=self.again,
            ),
        )

    def copy(self) -> View:
        """The same call, with what layers share so far; what one computes from here on, the other doesn't have."""
        return replace(self, _made=dict(self._made))

    def watcher(self, path: str, *names: str) -> See | None:
        """A function that reports a value under `path.name`, or None when nobody wants any of these names."""
        if self.probe is None or not any(self.probe.wants(f"{path}.{name}") for name in names):
            return None
        return lambda name, value: self.see(path, name, value)

    def see(self, path: str, name: str, value: Tensor) -> Tensor:
        """Report one value, if somebody wants it; what comes back is used."""
        if self.probe is None or not self.probe.wants(f"{path}.{name}"):
            return value
        return self.probe(f"{path}.{name}", value)

    def recall(self, path: str) -> Memory:
        """The memory, which must be there."""
        if self.memory is None:
            raise InputError(f"{path} looks at a memory, and this call has none", "pass what encode() returned")
        return self.memory

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Compute what all layers share only once a call."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]  # type: ignore[return-value]
