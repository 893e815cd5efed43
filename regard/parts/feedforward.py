"""The feed-forward: the same small network at every position, plain (Vaswani et al. 2017) or gated (Shazeer 2020)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from regard.core.activation import ACTIVATIONS, Activation
from regard.core.dense import Dense, is_large, is_plain, is_watched
from regard.core.dropout import dropout
from regard.core.matrix import TwoLayers, find_kernel
from regard.core.mixer import Part
from regard.core.role import FeedSpec
from regard.core.spec import Rate, Size
from regard.core.tape import Tape
from regard.core.view import View


class FeedForward(FeedSpec):
    """down(f(up x)), or down(f(gate x) * up x) when gated."""

    kind: Literal["feedforward"] = "feedforward"
    hidden: Size | None = None
    """There are this many hidden units; unless given, four times the width."""
    activation: Activation = "relu"
    """The activation between the two layers."""
    gated: bool = False
    """A second projection is multiplied with the activation's output, as in SwiGLU."""
    bias: bool = True
    """The projections have a bias."""
    dropout: Rate = 0.0
    """This share of the hidden units is dropped while training."""

    @property
    def nonlinearity(self) -> str:
        return self.activation

    def build(self, width: int) -> Part:
        return FeedForwardLayer(self, width)


class FeedForwardLayer(Part):
    names = ("hidden",)  # the units between the two layers, after the activation

    def __init__(self, spec: FeedForward, width: int) -> None:
        super().__init__()
        hidden = spec.hidden or 4 * width
        self.up = Dense(width, hidden, bias=spec.bias)
        self.gate = Dense(width, hidden, bias=spec.bias) if spec.gated else None
        self.down = Dense(hidden, width, bias=spec.bias)
        self.activation = ACTIVATIONS[spec.activation]
        self.nonlinearity = spec.activation
        self.dropout = spec.dropout

    def forward(self, x: Tensor, view: View) -> Tensor:
        if self.is_one(x, view):
            weights = self.up.weight, self.up.bias, self.down.weight, self.down.bias
            found: Tensor = TwoLayers.apply(x, *weights, self.nonlinearity)
            return found
        y = self.activation(self.up(x)) if self.gate is None else self.activation(self.gate(x)) * self.up(x)
        if self.dropout and self.training:
            y = dropout(y, self.dropout)
        return self.down(view.see(self.path, "hidden", y))

    def is_one(self, x: Tensor, view: View) -> bool:
        """Whether both layers learn as one: nobody asks for what is between them, and our kernel multiplies both."""
        if self.gate is not None or self.nonlinearity == "relu" or (self.dropout and self.training):
            return False
        if not torch.is_grad_enabled() or not is_large(x) or is_watched() or view.watcher(self.path, *self.names):
            return False
        layers = self.up, self.down
        return all(is_plain(layer) and find_kernel(x, layer.weight, layer.bias) is not None for layer in layers)

    def write(self, tape: Tape, x: int) -> int:
        y = tape.activate(self.nonlinearity, tape.multiply(self.up if self.gate is None else self.gate, x))
        return tape.multiply(self.down, y if self.gate is None else tape.times(tape.multiply(self.up, x), y))
