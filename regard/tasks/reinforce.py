"""REINFORCE: how attention that draws where it looks learns where to look (Williams 1992; Xu et al. 2015, section 4.1).

What a draw is worth is known only afterwards: it is the log-likelihood of the row that was written by it. So a task
watches the model while it computes its loss, and adds a term whose gradient is that of the expected loss. All chance is
torch's own generator's, and the baseline is the task's memory, so a run that goes on draws and learns the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from regard.core.mixer import Mixer
from regard.core.model import Model
from regard.core.probe import Probe
from regard.core.registry import Kinds
from regard.core.spec import Rate, Spec, Weight
from regard.errors import InputError, SpecError
from regard.tasks.task import Task


class Reinforce(Spec):
    """How much the rewards of what was drawn count. The numbers are those of the paper's code."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = "task.reinforce"
    kind: Literal["reinforce"] = "reinforce"
    reward: Weight = 0.1
    """A row's log-likelihood, less the baseline, counts by this factor; at 1 the gradient is that of the expected loss.
    """
    entropy: Weight = 0.002
    """The weight of the entropy of each word's attention, which keeps it from choosing too early."""
    keep: Rate = 0.9
    """The baseline keeps this share of itself from batch to batch; the rest is the batch's mean."""

    def build(self) -> Reinforcement:
        return Reinforcement(self)


class Reinforcement(Probe):
    """What a task asks: it watches a model, then charges the loss with what was drawn.

    >>> import regard, torch
    >>> from regard.tasks.reinforce import Reinforce
    >>> model = regard.preset("show-attend-tell-hard", width=16, image=8, vocabulary=9, dropout=0.0).build()
    >>> tokens, reward = torch.tensor([[1, 5, 6]]), Reinforce().build()
    >>> with reward.watch(model):
    ...     logits = model(tokens, model.encode(torch.randn(1, 3, 8, 8)))
    >>> nats = torch.nn.functional.cross_entropy(logits[0], torch.tensor([5, 6, 2]))
    >>> reward.charge(nats, nats[None]).requires_grad
    True
    """

    def __init__(self, spec: Reinforce | None = None) -> None:
        self.spec = spec or Reinforce()
        self.baseline = torch.zeros(2, dtype=torch.float64)  # the moving sum of mean losses, and of their weights
        self.wanted: dict[str, str] = {}
        self.heard: dict[str, Tensor] = {}
        self.listening = False

    def wants(self, name: str) -> bool:
        return name in self.wanted

    def __call__(self, name: str, value: Tensor) -> Tensor:
        if self.listening and name in self.wanted:  # a block that is run again for the gradient reports again
            kind = self.wanted[name]
            total = value.flatten(1).sum(1)  # (rows,)
            self.heard[kind] = self.heard[kind] + total if kind in self.heard else total
        return value

    @contextmanager
    def watch(self, model: Model) -> Iterator[None]:
        """Hear what the model draws within: around its one call. A model that draws nothing isn't watched."""
        self.wanted = {f"{path}.{kind}": kind for path in list_draws(model) for kind in ("choices", "entropy")}
        self.heard = {}
        if not self.wanted:
            yield
            return
        self.listening = True
        try:
            with model.watch(self):
                yield
        finally:
            self.listening = False

    def charge(self, loss: Tensor, nats: Tensor) -> Tensor:
        """A loss that is a sum over rows, with what teaches the draws; `nats`: each row's own loss, (rows,).

        ∇E[L] = E[∇L + (L - b) ∇ log p(drawn)] for every b that this draw doesn't change; so the baseline moves last.
        """
        if not self.wanted:
            return loss
        if not self.heard:
            raise InputError("nothing was heard of what the model drew", "call the model itself within watch")
        drawn, spread = self.heard["choices"], self.heard["entropy"]
        if drawn.shape != nats.shape:
            raise InputError(f"{nats.numel()} rows have a loss, and {drawn.numel()} were drawn for", "one loss a row")
        worth = nats.detach().to(drawn)
        surplus = worth - self.expected
        charged = loss + self.spec.reward * (surplus * drawn).sum() - self.spec.entropy * spread.sum()
        share = 1 - self.spec.keep
        now = torch.tensor([float(worth.mean()), 1.0], dtype=torch.float64)
        self.baseline = self.spec.keep * self.baseline + share * now
        self.heard = {}
        return charged

    @property
    def expected(self) -> float:
        """The baseline: a moving mean of rows' losses, in which the batches that there were count to 1."""
        total, weight = self.baseline.tolist()
        return total / weight if weight else 0.0

    def memory(self) -> Mapping[str, Tensor]:
        """What the next batch needs to know, for a checkpoint."""
        return {"baseline": self.baseline}

    def recall(self, memory: Mapping[str, Tensor]) -> None:
        """Be again where a checkpoint was saved."""
        self.baseline = memory["baseline"].to(torch.float64).cpu().clone()


def list_draws(model: Model) -> list[str]:
    """The paths of the parts that draw where they look, and so learn only by REINFORCE."""
    return [part.path for part in model.modules() if isinstance(part, Mixer) and part.draws]


def insist_on_rewards(model: Model, task: Task[Any]) -> None:
    """Refuse a model that draws where it looks for a task that never tells what that was worth."""
    drawing = list_draws(model)
    if drawing and not task.reinforces:
        raise SpecError(
            f"{drawing[0]} draws where it looks (hard: sampled), and {task.spec.kind} doesn't reward what it draws",
            "hard=true, which learns as if it were soft, or task=captioning",
        )
