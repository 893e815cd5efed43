"""What every task is: batches in an order that can be resumed, a loss, and an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from torch import Tensor

from regard.core.model import Model
from regard.core.spec import Spec

B = TypeVar("B")
Pulse = Callable[[], None]  # called now and then in long work; it may raise to end it


class TaskSpec(Spec):
    """What is to be learned."""

    kinds: ClassVar[dict[str, type[Spec]]] = {}
    usual: ClassVar[str | None] = "translation"


@dataclass
class Place(Generic[B]):
    """A batch, and where it stands in the order."""

    epoch: int
    position: int
    batch: B
    share: float  # of the epoch that is done with it


class Task(Protocol[B]):
    """One thing to learn from one corpus."""

    goal: str  # the measure that says which checkpoint is best
    rising: bool  # whether more of it is better

    def batches(self, epoch: int, position: int) -> Generator[Place[B], None, None]:
        """Batches from a place in the order on, for ever."""

    def loss(self, model: Model, batch: B) -> Tensor:
        """The sum over what is predicted, so that batches of different sizes can be added up."""

    def size(self, batch: B) -> int:
        """How many predictions that is."""

    def evaluate(self, model: Model, pulse: Pulse) -> Mapping[str, Any] | None:
        """Measures on what isn't trained on; None if there is nothing of the kind."""
