"""A mixture of experts: many feed-forwards, of which a router picks a few for each token.

Top-k routing with a load-balancing loss (Shazeer et al. 2017, Mixtral), or with a bias that is steered instead of a
loss, over groups of experts, with experts that every token shares (DeepSeek-V3, 2024).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn

from regard.core.activation import ACTIVATIONS, Activation
from regard.core.dense import Dense
from regard.core.matrix import linear
from regard.core.mixer import Part
from regard.core.probe import See
from regard.core.role import FeedSpec
from regard.core.spec import Count, Positive, Size
from regard.core.view import View
from regard.parts.feedforward import FeedForward

BALANCE = 0.01  # the usual weight of the balance in a loss (Fedus et al. 2022)


class Experts(FeedSpec):
    """`top` of `experts` gated feed-forwards for each token, and `shared` ones for all."""

    kind: Literal["experts"] = "experts"
    hidden: Size | None = None
    """An expert has this many hidden units; unless given, four times the width."""
    experts: Size = 8
    """There are this many experts."""
    top: Size = 2
    """Each token goes through this many experts."""
    shared: Count = 0
    """Every token passes through this many experts' worth of hidden units."""
    activation: Activation = "silu"
    """The activation of an expert's gate."""
    score: Literal["softmax", "sigmoid"] = "softmax"
    """The router's scores are softmaxed, or each is a sigmoid of its own."""
    balance: Literal["loss", "bias"] = "loss"
    """The experts are used evenly by a loss, or by a bias that is steered (DeepSeek-V3)."""
    groups: Size = 1
    """The experts are divided into this many groups."""
    top_groups: Size = 1
    """A token's experts come from this many groups."""
    normalise: bool = True
    """The chosen experts' weights sum to 1."""
    scale: Positive = 1.0
    """The experts' answers are multiplied by this."""

    @property
    def nonlinearity(self) -> str:
        return self.activation

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.experts % self.groups:
            raise ValueError(f"groups: experts {self.experts} is not divisible by groups {self.groups}")
        if self.top_groups > self.groups:
            raise ValueError(f"top_groups: {self.top_groups} of {self.groups} groups")
        if self.top > self.experts // self.groups * self.top_groups:
            raise ValueError(f"top: {self.top} experts of the {self.experts // self.groups * self.top_groups} in reach")
        return self

    def build(self, width: int) -> Part:
        return MixtureOfExperts(self, width)


class MixtureOfExperts(Part):
    """Each expert runs once on all the tokens that chose it.

    `balance` is the load-balancing loss of a call, `load` each expert's share of the choices; whoever trains collects
    the one as a cost, or steers by the other where there is a bias.
    """

    names = ("balance", "load")

    def __init__(self, spec: Experts, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.router = Dense(width, spec.experts, bias=False)
        self.router.exact = True  # a rounded weight would choose another expert
        hidden = spec.hidden or 4 * width
        self.gate = nn.Parameter(torch.empty(spec.experts, hidden, width))
        self.up = nn.Parameter(torch.empty(spec.experts, hidden, width))
        self.down = nn.Parameter(torch.empty(spec.experts, width, hidden))
        self.activation = ACTIVATIONS[spec.activation]
        common = {"activation": spec.activation, "gated": True, "bias": False}
        self.shared = FeedForward(hidden=hidden * spec.shared, **common).build(width) if spec.shared else None
        self.register_buffer("bias", torch.zeros(spec.experts) if spec.balance == "bias" else None)
        for weight in (self.gate, self.up, self.down):
            nn.init.normal_(weight, std=0.02)

    bias: Tensor | None

    def reset(self) -> None:
        if self.bias is not None:
            self.bias.zero_()

    def forward(self, x: Tensor, view: View) -> Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        scores = self.affinity(tokens)
        chosen = self.choose(scores)  # (tokens, top)
        weights = scores.gather(1, chosen)
        if self.spec.normalise:
            weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-20)
        y = self.dispatch(tokens, chosen, (weights * self.spec.scale).to(tokens.dtype))
        y = y.view_as(x)
        if self.shared is not None:
            y = y + self.shared(x, view)
        see = view.watcher(self.path, *self.names)
        if see:
            self.report(scores, chosen, view, see)
        return y

    def affinity(self, tokens: Tensor) -> Tensor:
        """How well each expert suits each token: (tokens, experts), in single precision."""
        logits = self.router.score_in_single(tokens)  # a rounded score would choose another expert
        return logits.softmax(-1) if self.spec.score == "softmax" else logits.sigmoid()

    def choose(self, scores: Tensor) -> Tensor:
        """The experts for each token; the steered bias counts in the choice but not in the weights."""
        spec = self.spec
        ranked = scores if self.bias is None else scores + self.bias
        if spec.groups > 1:
            grouped = ranked.view(-1, spec.groups, spec.experts // spec.groups)
            strength = grouped.topk(min(2, grouped.shape[-1]), -1).values.sum(-1)
            near = strength.topk(spec.top_groups, -1).indices
            outside = torch.ones_like(strength, dtype=torch.bool).scatter(1, near, False)
            ranked = grouped.masked_fill(outside[..., None], -torch.inf).flatten(1)
        return ranked.topk(spec.top, -1).indices

    def dispatch(self, tokens: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Sum over the chosen experts of weight * expert(token)."""
        order = chosen.flatten().argsort(stable=True)  # choices, sorted by expert
        source = order // self.spec.top
        sizes = torch.bincount(chosen.flatten(), minlength=self.spec.experts).tolist()
        results = []
        for expert, mine in enumerate(tokens[source].split(sizes)):
            if len(mine):
                hidden = self.activation(linear(mine, self.gate[expert])) * linear(mine, self.up[expert])
                results.append(linear(hidden, self.down[expert]))
        if not results:
            return torch.zeros_like(tokens)
        weighted = torch.cat(results) * weights.flatten()[order, None]
        return torch.zeros_like(weighted[:1]).expand(len(tokens), -1).index_add(0, source, weighted)

    def report(self, scores: Tensor, chosen: Tensor, view: View, see: See) -> None:
        """Tell how evenly real tokens were spread: experts * Σ share of choices * mean probability, 1 when even."""
        if view.mask.valid is not None:
            real = view.mask.valid.flatten()
            scores, chosen = scores[real], chosen[real]
        load = torch.bincount(chosen.flatten(), minlength=self.spec.experts) / max(chosen.numel(), 1)
        mean = (scores / scores.sum(-1, keepdim=True)).mean(0)
        see("load", load)
        see("balance", self.spec.experts * (load * mean).sum())

    @property
    def costs(self) -> Mapping[str, float]:
        return {"balance": BALANCE} if self.bias is None else {}

    @property
    def loads(self) -> tuple[str, ...]:
        return () if self.bias is None else ("load",)

    def steer(self, loads: Mapping[str, Tensor], speed: float = 0.001) -> None:
        """Make crowded experts a little less likely to be chosen, and idle ones more; no gradient is involved."""
        if self.bias is not None:
            load = loads["load"]
            self.bias += speed * (load.mean() - load).sign()
