"""Recurrent cells: the plain RNN (Elman 1990), the LSTM (Hochreiter & Schmidhuber 1997), the GRU (Cho et al. 2014).

One set of weights, two ways to use it: a whole sequence through torch's fused kernel, or one step for loops that need
something between two steps. What is carried from step to step is a tuple of (rows, layers * directions, size).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.core.dropout import dropout
from regard.core.mixer import Part
from regard.core.view import View

Kind = Literal["rnn", "relu", "lstm", "gru"]
Carry = tuple[Tensor, ...]  # hidden, and for an LSTM the cell


class Cell(Part):
    """`layers` cells of one kind on top of each other."""

    def __init__(
        self, kind: Kind, inputs: int, size: int, layers: int = 1, both: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.kind, self.size, self.layers, self.both, self.dropout = kind, size, layers, both, dropout
        between = dropout if layers > 1 else 0.0
        settings = {"batch_first": True, "bidirectional": both, "dropout": between}
        self.fused: nn.RNNBase
        if kind == "lstm":
            self.fused = nn.LSTM(inputs, size, layers, **settings)
        elif kind == "gru":
            self.fused = nn.GRU(inputs, size, layers, **settings)
        else:
            shape = "relu" if kind == "relu" else "tanh"
            self.fused = nn.RNN(inputs, size, layers, nonlinearity=shape, **settings)
        self.reset()

    def reset(self) -> None:
        """Orthogonal recurrent weights, Xavier input weights, no biases but the LSTM's forget bias of 1."""
        for name, weight in self.fused.named_parameters():
            if "bias" in name:
                nn.init.zeros_(weight)
                if self.kind == "lstm" and name.startswith("bias_ih"):
                    nn.init.ones_(weight[self.size : 2 * self.size])
            else:
                for gate in weight.split(self.size):
                    (nn.init.orthogonal_ if name.startswith("weight_hh") else nn.init.xavier_uniform_)(gate)

    @property
    def pieces(self) -> int:
        """Tensors carried: two for an LSTM, else one."""
        return 2 if self.kind == "lstm" else 1

    def zeros(self, rows: int, view: View) -> Carry:
        """What is carried to the first step."""
        layers = self.layers * (1 + self.both)
        return tuple(view.zeros(rows, layers, self.size) for _ in range(self.pieces))

    def forward(self, x: Tensor, carry: Carry, lengths: Tensor | None = None) -> tuple[Tensor, Carry]:
        """A whole sequence; with `lengths`, rows end early and the carry is each row's own last one."""
        x = x.to(carry[0].dtype)
        start = tuple(piece.transpose(0, 1).contiguous() for piece in carry)
        given = start if self.kind == "lstm" else start[0]
        with avoid_half_kernels(x):
            if lengths is None:
                y, end = self.fused(x, given)
            else:
                some = lengths.clamp(min=1)  # an empty row can't be packed; its carry is put back below
                packed = pack_padded_sequence(x, some.cpu(), batch_first=True, enforce_sorted=False)
                y, end = self.fused(packed, given)
                y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
        ends = end if self.kind == "lstm" else (end,)
        ends = tuple(piece.transpose(0, 1) for piece in ends)
        if lengths is not None:
            empty = (lengths == 0)[:, None, None]
            ends = tuple(torch.where(empty, old, new) for old, new in zip(carry, ends, strict=True))
        return y, ends

    def step(self, x: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """One step: (rows, inputs) to the top layer's hidden (rows, size), and what to carry on."""
        hidden: list[Carry] = []
        for layer in range(self.layers):
            if layer and self.dropout and self.training:
                x = dropout(x, self.dropout)
            before = tuple(piece[:, layer] for piece in carry)
            now = self._layer(x, before, layer)
            hidden.append(now)
            x = now[0]
        return x, tuple(torch.stack(pieces, 1) for pieces in zip(*hidden, strict=True))

    def _layer(self, x: Tensor, before: Carry, layer: int) -> Carry:
        weights = [getattr(self.fused, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        if self.kind == "lstm":
            return torch.lstm_cell(x, before, *weights)
        if self.kind == "gru":
            return (torch.gru_cell(x, before[0], *weights),)
        return ((torch.rnn_relu_cell if self.kind == "relu" else torch.rnn_tanh_cell)(x, before[0], *weights),)


@contextmanager
def avoid_half_kernels(x: Tensor) -> Iterator[None]:
    """Keep clear of the half-precision kernels for CPUs: where the processor lacks their instructions they fail."""
    if x.device.type != "cpu":
        yield
    elif x.dtype in (torch.float32, torch.float64):
        with torch.autocast("cpu", enabled=False):
            yield
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of GPUs when this switch is turned
            with torch.backends.mkldnn.flags(enabled=False):
                yield
