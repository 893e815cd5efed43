"""The mixer protocol: everything that moves information between positions obeys it.

(batch, time, width) in, (batch, time, width) out. With a state, a call continues where the last one ended; without
one, it is a whole sequence. `regard laws` holds every mixer to what that promises. Documents packed into one row need
no care: a mixer gets each in a row of its own, unless it says that it `packs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from torch import Tensor, nn

from regard.core.grid import Grid
from regard.core.registry import Kinds
from regard.core.role import RelativeSpec
from regard.core.spec import Spec
from regard.core.state import State
from regard.core.view import View
from regard.errors import SpecError


def list_modules(*roots: nn.Module) -> list[nn.Module]:
    """Some modules and all below them, each once: as torch's `modules`, which spells every name on its way."""
    found, waiting = dict[nn.Module, None](), list(roots[::-1])
    while waiting:
        module = waiting.pop()
        if module not in found:
            found[module] = None
            waiting += [child for child in module._modules.values() if child is not None]
    return list(found)


class Part(nn.Module):
    """A module of ours: it knows its path in the model, what it can report, and how its weights start."""

    names: tuple[str, ...] = ()  # what a probe can see here; of an instance, where that depends on its spec
    early: tuple[str, ...] = ()  # which of them are computed when a state is started, and not in its steps
    undecayed: tuple[str, ...] = ()  # its weights that aren't vectors and yet mustn't decay
    before: ClassVar[tuple[str, ...]] = ()  # of a head: what stands before the answer, and another head may take over
    by_label: ClassVar[tuple[str, ...]] = ()  # of a head: what has a row for each label
    anew: ClassVar[tuple[str, ...]] = ()  # of a head: what every run learns by itself, whatever model it goes on from
    running: ClassVar[tuple[str, ...]] = ()  # its buffers that follow the weights, and are averaged with them
    recalls: bool = False  # True: it looks at a memory, so its weights are an alignment
    encloses: ClassVar[bool] = False  # True: what the parts inside it report goes by its own names
    drifts: bool = False  # True: what it says of earlier positions changes as a sequence grows, so it is read whole
    path: str = "part"

    def reset(self) -> None:
        """Set the weights that don't start as plain matrices do."""

    def refit(self, name: str, weight: Tensor, other: Part) -> Tensor | None:
        """A weight inside it that `other`, of the same make, learned at another size, made to fit; None: it can't."""
        return None

    @property
    def costs(self) -> Mapping[str, float]:
        """Which of its names are costs: numbers that whoever trains adds to the loss, each times its usual weight."""
        return {}

    @property
    def loads(self) -> tuple[str, ...]:
        """Which of its names it wants to be told again after each step, as a mean over all that the step computed."""
        return ()

    @property
    def layers_to_pack(self) -> tuple[nn.RNNBase, ...]:
        """Torch's recurrent layers that it holds, where it can step with `PackedGates` in their place too."""
        return ()

    def steer(self, loads: Mapping[str, Tensor]) -> None:
        """Be told how a step used it, by the names of its `loads`; no gradient is involved."""


class Mixer(Part):
    """Mixes positions."""

    path = "mixer"
    causal: bool = True  # False: a position may see later ones, so there is no stepping
    grows: bool = False  # True: what it remembers grows with every position
    alone: bool = False  # True: a position needs nothing of those before it, so there is nothing to remember
    packs: ClassVar[bool] = False  # True: it keeps a row's documents apart itself, by the mask's table
    accumulates: str = ""  # what it adds up over many positions, and so keeps in single precision at least
    estimates: bool = False  # True: its gradient isn't the slope of what it computes, as where a choice is hard
    draws: bool = False  # True: it draws where it looks while training, and reports `choices` and their `entropy`
    tries: bool = False  # True: any of its steps may be the last; it reports `trials`, their outputs, and `chances`
    connects: bool = False  # True: it mixes positions along the edges of a graph
    reaches: bool = True  # False: positions that no edge joins never hear of each other
    ordered: bool = True  # False: it takes positions for a set, so that what changes places changes answers alone
    leaves_final: ClassVar[bool] = False  # True: its state, at the end of a source, is worth handing on

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        raise NotImplementedError

    def start(self, rows: int, view: View) -> State | None:
        """What to remember before the first token; None: nothing, which suits only who is `alone` or not causal."""
        return None

    @property
    def steps(self) -> bool:
        """Whether it can go on from what came before: by a state of its own making, or because it needs none."""
        return self.alone or type(self).start is not Mixer.start


class MixerSpec(Spec):
    """How positions are mixed."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.mixers")
    home: ClassVar[str | None] = ".mix"
    meanings: ClassVar[Mapping[str, str]] = {
        "causal": "A position sees only itself and what came before it.",
        "over": "Positions look at each other (self), or at what an encoder left (memory).",
        "memory": "The memory's vectors have this many numbers; unless given, the model's width.",
    }

    def build(self, width: int) -> Mixer:
        raise NotImplementedError

    def memory_width(self, width: int) -> int | None:
        """The width of the memory that it expects inside a model of some width; None: it reads no memory."""
        return None

    @property
    def over_memory(self) -> bool:
        """Whether it reads an encoder's memory."""
        return self.memory_width(1) is not None

    @property
    def ignores_input(self) -> bool:
        """Whether it gives every position the same, whatever stands there: a norm before it would do nothing."""
        return False

    @property
    def needs_grid(self) -> bool:
        """Whether it mixes a picture as a plane, so that positions must be its places, row by row."""
        return False

    @property
    def relative(self) -> RelativeSpec | None:
        """The positions that act inside it."""
        return None

    @property
    def biased_heads(self) -> int | None:
        """How many heads take a bias that the stack shares; None: it takes none."""
        return None

    def lie_on(self, grid: Grid | None) -> Self:
        """This mixer as a picture needs it that its positions are places of; None: they aren't."""
        return self

    def relevel(self, before: int, after: int, width: int) -> Self:
        """This mixer, made for pixels of `before` values in a model of some width, for pixels of `after` values."""
        return self

    def forward_only(self) -> Self:
        """This mixer as a decoder needs it: no position sees a later one."""
        return self

    def both_ways(self) -> Self:
        """This mixer as an encoder needs it: every position sees all, where the mixer can."""
        return self

    def keep_apart(self) -> Self:
        """This mixer with two directions that never meet, each on its own half of the channels."""
        raise SpecError(
            f"mix: {self.kind} would let the two directions meet, and each must predict without the other",
            "mix=recurrent",
        )

    def read_memory(self) -> Self:
        """This mixer as a `cross` needs it: it looks at what an encoder left."""
        if not self.over_memory:
            raise SpecError(
                f"cross: {self.kind} looks at its own sequence and can't look at a memory", "cross=attention"
            )
        return self

    def locate(self, position: RelativeSpec | None) -> Self:
        """This mixer with other positions inside; None: with none."""
        if position is not None:
            raise SpecError(
                f"position: {position.kind} acts between queries and keys, and {self.kind} has none",
                "position=sinusoidal, which is added to the words; or mix=attention",
            )
        return self
