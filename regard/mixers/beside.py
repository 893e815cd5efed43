"""Mixers side by side: each reads the same positions, and what they give is added up.

So a block can hear neighbours along edges and look at all nodes at once, as a layer of GPS does (Rampášek et al. 2022);
or read forwards and backwards (`backward.py`); or have heads of attention beside a recurrence. It stands in any slot
that its members can stand in, and keeps a state for each.

Cost: time and state are the sums of the members'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.core.grid import Grid
from regard.core.mixer import Mixer, MixerSpec
from regard.core.role import NormSpec, RelativeSpec
from regard.core.spec import build_optional
from regard.core.state import Group, State
from regard.core.view import View
from regard.errors import SpecError
from regard.mixers.convolution import Convolution
from regard.mixers.pool import Pool

T = TypeVar("T")


class Beside(MixerSpec):
    """Who stands side by side, and what becomes of what each gives."""

    kind: Literal["beside"] = "beside"
    mixers: tuple[MixerSpec, ...] = Field(default=(Convolution(), Pool()), min_length=1)
    """These mixers read the same positions, and what they give is added up."""
    norm: NormSpec | None = None
    """What each of them gives goes through a norm of this kind before it is added."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if len({mixer.over_memory for mixer in self.mixers}) > 1:
            raise ValueError("mixers: some look at a memory and others don't; the memory is for a block's cross")
        return self

    def _change(self, change: Callable[[MixerSpec], MixerSpec]) -> Self:
        return self.replace(mixers=tuple(change(mixer) for mixer in self.mixers))

    def _find(self, ask: Callable[[MixerSpec], T | None]) -> T | None:
        """The first answer of a member that has one."""
        return next((found for mixer in self.mixers if (found := ask(mixer)) is not None), None)

    def memory_width(self, width: int) -> int | None:
        return self._find(lambda mixer: mixer.memory_width(width))

    @property
    def ignores_input(self) -> bool:
        return all(mixer.ignores_input for mixer in self.mixers)

    @property
    def needs_grid(self) -> bool:
        return any(mixer.needs_grid for mixer in self.mixers)

    @property
    def relative(self) -> RelativeSpec | None:
        return self._find(lambda mixer: mixer.relative)

    @property
    def biased_heads(self) -> int | None:
        return self._find(lambda mixer: mixer.biased_heads)

    def lie_on(self, grid: Grid | None) -> Self:
        return self._change(lambda mixer: mixer.lie_on(grid))

    def relevel(self, before: int, after: int, width: int) -> Self:
        return self._change(lambda mixer: mixer.relevel(before, after, width))

    def forward_only(self) -> Self:
        return self._change(lambda mixer: mixer.forward_only())

    def both_ways(self) -> Self:
        return self._change(lambda mixer: mixer.both_ways())

    def keep_apart(self) -> Self:
        return self._change(lambda mixer: mixer.keep_apart())

    def read_memory(self) -> Self:
        return self._change(lambda mixer: mixer.read_memory())

    def locate(self, position: RelativeSpec | None) -> Self:
        """Positions inside those members that have a place for them."""
        refusals: list[SpecError] = []

        def change(mixer: MixerSpec) -> MixerSpec:
            try:
                return mixer.locate(position)
            except SpecError as error:
                refusals.append(error)
                return mixer

        located = self._change(change)
        if len(refusals) == len(self.mixers):
            raise refusals[0]
        return located

    def build(self, width: int) -> Mixer:
        return SideBySide(self, width)


class Composite(Mixer):
    """A mixer that holds others; a probe sees these by their numbers."""

    def __init__(self, members: list[Mixer]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        for number, member in enumerate(members):
            member.path = f"{self.path}.{number}"  # of a mixer that stands alone; a model says where it stands

    def list_members(self) -> list[Mixer]:
        """The mixers, as mixers."""
        return list(self.members)  # type: ignore[arg-type]

    def ask(self, name: str) -> list[Any]:
        """What every member says of itself."""
        return [getattr(member, name) for member in self.members]


class SideBySide(Composite):
    """Σᵢ normᵢ(mixerᵢ(x))"""

    def __init__(self, spec: Beside, width: int) -> None:
        members = [mixer.build(width) for mixer in spec.mixers]
        super().__init__(members)
        self.norms = nn.ModuleList(build_optional(spec.norm, width) or nn.Identity() for _ in members)
        self.causal, self.alone = all(self.ask("causal")), all(self.ask("alone"))
        self.recalls, self.grows, self.draws = any(self.ask("recalls")), any(self.ask("grows")), any(self.ask("draws"))
        self.connects, self.ordered = any(self.ask("connects")), any(self.ask("ordered"))
        self.reaches = any(self.ask("reaches"))
        self.estimates, self.accumulates = any(self.ask("estimates")), ", ".join(filter(None, self.ask("accumulates")))
        self.names = tuple(f"{n}.{name}" for n, member in enumerate(members) for name in member.names)
        self.early = tuple(f"{n}.{name}" for n, member in enumerate(members) for name in member.early)

    @property
    def steps(self) -> bool:
        return all(self.ask("steps"))

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        states = state.parts if isinstance(state, Group) else (None,) * len(self.members)
        total: Tensor | None = None
        for member, norm, part in zip(self.members, self.norms, states, strict=True):
            found = norm(member(x, view, part))
            total = found if total is None else total + found
        if state is not None:
            state.advance(view.mask)
        assert total is not None
        return total

    def start(self, rows: int, view: View) -> State | None:
        if not self.causal:
            return None
        return Group(parts=tuple(member.start(rows, view) for member in self.list_members()))
