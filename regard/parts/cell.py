"""Recurrent cells: the plain RNN (Elman 1990), the LSTM (Hochreiter & Schmidhuber 1997), the GRU (Cho et al. 2014).

One set of weights, three ways to use it: a whole sequence through torch's fused kernel; a whole sequence in the open,
for whoever watches; and one step, for loops that need something between two steps. What is carried from step to step
is a tuple of (rows, layers * directions, size).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.core.dropout import dropout
from regard.core.matrix import linear
from regard.core.mixer import Part
from regard.core.packed import PackedGates
from regard.core.view import View
from regard.errors import InputError
from regard.parts.gates import pass_gates
from regard.parts.repeated import Repeated

Kind = Literal["rnn", "relu", "lstm", "gru"]
Carry = tuple[Tensor, ...]  # hidden, and for an LSTM the cell
Values = dict[str, Tensor]  # what a cell computes, by name

# what can be seen of a cell in the open; `impulse` is what a watcher adds to its hidden vectors
SIGHTS: dict[Kind, tuple[str, ...]] = {
    "rnn": ("hidden", "impulse"),
    "relu": ("hidden", "impulse"),
    "gru": ("hidden", "impulse", "reset_gate", "update_gate"),
    "lstm": ("hidden", "impulse", "cell", "input_gate", "forget_gate", "output_gate"),
}


class Cell(Part):
    """`layers` cells of one kind on top of each other."""

    def __init__(
        self, kind: Kind, inputs: int, size: int, layers: int = 1, both: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.kind, self.size, self.layers, self.both, self.dropout = kind, size, layers, both, dropout
        between = dropout if layers > 1 else 0.0
        settings = {"batch_first": True, "bidirectional": both, "dropout": between}
        self.fused: nn.RNNBase | PackedGates  # for use it may be packed, and then every step is in the open
        if kind == "lstm":
            self.fused = nn.LSTM(inputs, size, layers, **settings)
        elif kind == "gru":
            self.fused = nn.GRU(inputs, size, layers, **settings)
        else:
            shape = "relu" if kind == "relu" else "tanh"
            self.fused = nn.RNN(inputs, size, layers, nonlinearity=shape, **settings)
        self.reset()

    @property
    def layers_to_pack(self) -> tuple[nn.RNNBase, ...]:
        return () if isinstance(self.fused, PackedGates) else (self.fused,)

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
        if isinstance(self.fused, PackedGates):
            nothing = x.new_zeros(1).expand(*x.shape[:2], carry[0].shape[1] * self.size)
            values, ends = self.openly(x, carry, lengths, nothing, ("hidden",))
            return values["hidden"][..., -self.size * (1 + self.both) :], ends
        if x.shape[1] == 1 and lengths is None and not self.both and not self.training:
            # the fused kernel arranges all weights anew at every call: for one step, ten times as long as the step
            with avoid_half_kernels(x):
                y, ends = self.step(x[:, 0], carry)
            return y[:, None], ends
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

    def openly(
        self, x: Tensor, carry: Carry, lengths: Tensor | None, impulse: Tensor, names: tuple[str, ...] = ()
    ) -> tuple[Values, Carry]:
        """What `forward` computes, step by step and with all that is inside: (rows, time, layers * directions * size).

        `impulse`, of that shape, is added to each hidden vector as it leaves the cell, so that all later steps and
        upper layers see it: its gradient is the total derivative by the hidden vector, by every way that leads on.
        `names`: what is wanted of what is inside, unless all of it.
        """
        x, directions = x.to(carry[0].dtype), 1 + self.both
        names = names or tuple(name for name in SIGHTS[self.kind] if name != "impulse")
        seen: list[Values] = []
        ends: list[Carry] = []
        with avoid_half_kernels(x):
            for place, kick in enumerate(impulse.split(self.size, -1)):
                layer, back = divmod(place, directions)
                if layer and not back:
                    x = torch.cat([values["hidden"] for values in seen[-directions:]], -1)
                    x = drop_between(x, lengths, self.dropout) if self.dropout and self.training else x
                before = tuple(piece[:, place] for piece in carry)
                if back:
                    turned, kicks = reverse(x, lengths), reverse(kick, lengths)
                    values, end = self._unroll(turned, before, lengths, kicks, place, names)
                    values = {name: reverse(value, lengths) for name, value in values.items()}
                else:
                    values, end = self._unroll(x, before, lengths, kick, place, names)
                seen.append(values)
                ends.append(end)
        joined = {name: torch.cat([values[name] for values in seen], -1) for name in seen[0]}
        return joined, tuple(torch.stack(pieces, 1) for pieces in zip(*ends, strict=True))

    def _unroll(
        self,
        x: Tensor,
        carry: Carry,
        lengths: Tensor | None,
        impulse: Tensor,
        place: int,
        names: tuple[str, ...],
    ) -> tuple[Values, Carry]:
        """One layer in one direction; a pad is zeros and moves nothing, as in a packed sequence."""
        layer, back = divmod(place, 1 + self.both)
        given = self._multiply("ih", x, layer, back)  # (rows, time, gates * size), all steps at once
        steps: list[Values] = []
        for time, kick in enumerate(impulse.unbind(1)):
            values = self._tick(given[:, time], self._multiply("hh", carry[0], layer, back), carry, kick)
            now = tuple(values[name] for name in ("hidden", "cell")[: self.pieces])
            values = {name: values[name] for name in names}
            if lengths is not None:
                real = (time < lengths)[:, None]
                values = {name: torch.where(real, value, 0) for name, value in values.items()}
                now = tuple(torch.where(real, new, old) for new, old in zip(now, carry, strict=True))
            steps.append(values)
            carry = now
        return {name: torch.stack([values[name] for values in steps], 1) for name in steps[0]}, carry

    def _tick(self, given: Tensor, held: Tensor | None, before: Carry, impulse: Tensor | float = 0.0) -> Values:
        """One step of one layer by its equations; `given`, `held`: what the input and the last hidden vector say.

        None: `given` is the sum of both, which a GRU can't use.
        """
        if self.kind == "lstm":
            enter, forget, new, leave = (given if held is None else given + held).chunk(4, -1)
            enter, forget, leave = enter.sigmoid(), forget.sigmoid(), leave.sigmoid()
            cell = forget * before[1] + enter * new.tanh()
            hidden = leave * cell.tanh()
            hidden = hidden if isinstance(impulse, float) else hidden + impulse
            return {"hidden": hidden, "cell": cell, "input_gate": enter, "forget_gate": forget, "output_gate": leave}
        if self.kind == "gru":
            assert held is not None
            (reset, update, new), (own_reset, own_update, own_new) = given.chunk(3, -1), held.chunk(3, -1)
            reset, update = (reset + own_reset).sigmoid(), (update + own_update).sigmoid()
            new = (new + reset * own_new).tanh()
            # z is the share of the old vector that is kept, as torch has it
            hidden = new + update * (before[0] - new) + impulse
            return {"hidden": hidden, "reset_gate": reset, "update_gate": update}
        hidden = given if held is None else given + held
        return {"hidden": (hidden.relu() if self.kind == "relu" else hidden.tanh()) + impulse}

    def step(self, x: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """One step: (rows, inputs) to the top layer's hidden (rows, size), and what to carry on."""
        return self.climb(self._layer(x, tuple(piece[:, 0] for piece in carry), 0), carry)

    def climb(self, now: Carry, carry: Carry) -> tuple[Tensor, Carry]:
        """The rest of a step, from what its first layer made: all layers above."""
        if self.layers == 1:  # a view costs nothing, and loops of small steps feel a copy
            return now[0], tuple(piece[:, None] for piece in now)
        hidden = [now]
        for layer in range(1, self.layers):
            x = dropout(now[0], self.dropout) if self.dropout and self.training else now[0]
            now = self._layer(x, tuple(piece[:, layer] for piece in carry), layer)
            hidden.append(now)
        return now[0], tuple(torch.stack(pieces, 1) for pieces in zip(*hidden, strict=True))

    def step_openly(self, x: Tensor, carry: Carry, impulse: Tensor) -> tuple[Values, Carry]:
        """What `step` computes, with all that is inside: (rows, layers, size), and so is `impulse`."""
        seen: list[Values] = []
        for layer, kick in enumerate(impulse.unbind(1)):
            if layer and self.dropout and self.training:
                x = dropout(x, self.dropout)
            before = tuple(piece[:, layer] for piece in carry)
            given, held = self._multiply("ih", x, layer), self._multiply("hh", before[0], layer)
            values = self._tick(given, held, before, kick)
            seen.append(values)
            x = values["hidden"]
        joined = {name: torch.stack([values[name] for values in seen], 1) for name in seen[0]}
        return joined, tuple(joined[name] for name in ("hidden", "cell")[: self.pieces])

    def watched(self, path: str, view: View) -> Cell | Watched:
        """The cell itself, or in the open where somebody wants to see inside; `path`: whose cell it is."""
        return self if view.watcher(path, *SIGHTS[self.kind]) is None else Watched(self, path, view)

    def _layer(self, x: Tensor, before: Carry, layer: int) -> Carry:
        if isinstance(self.fused, PackedGates):
            given, held = self._multiply("ih", x, layer), self._multiply("hh", before[0], layer)
            values = self._tick(given, held, before)
            return tuple(values[name] for name in ("hidden", "cell")[: self.pieces])
        weights = self._weights(layer)
        if self.kind == "lstm":
            return torch.lstm_cell(x, before, *weights)
        if self.kind == "gru":
            return (torch.gru_cell(x, before[0], *weights),)
        return ((torch.rnn_relu_cell if self.kind == "relu" else torch.rnn_tanh_cell)(x, before[0], *weights),)

    def _multiply(self, side: Literal["ih", "hh"], x: Tensor, layer: int, back: int = 0) -> Tensor:
        """What an input (`ih`) or the last hidden vector (`hh`) says to the gates of a layer."""
        end = f"{side}_l{layer}" + "_reverse" * back
        if isinstance(self.fused, PackedGates):
            found: Tensor = getattr(self.fused, end)(x)
            return found
        return linear(x, getattr(self.fused, f"weight_{end}"), getattr(self.fused, f"bias_{end}"))

    def _weights(self, layer: int, back: int = 0) -> list[Tensor]:
        """Of the input, of the last hidden vector, and their biases; `back`: of the direction from the end."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [getattr(self.fused, f"{name}_l{layer}" + "_reverse" * back) for name in names]


class Ahead:
    """A cell that steps through inputs of which a part is known for all steps: what that says is computed at once.

    One product of many rows costs less than many of few, forward and backward. Packed matrices can't be cut in two, so
    a packed cell reads its whole input at every step.
    """

    def __init__(self, cell: Cell, x: Tensor) -> None:
        """`x`: the part that is known, (rows, time, …); it comes first in the cell's input."""
        self.cell, known = cell, x.shape[-1]
        self.known = iter(x.unbind(1)) if isinstance(cell.fused, PackedGates) else None
        if self.known is not None:
            return
        weight, self.recurrent, bias, self.other = cell._weights(0)
        self.joined = cell.kind != "gru"  # a GRU's reset gate stands between its two products; else they are one
        rest, bias = weight[:, known:], bias + self.other if self.joined else bias
        rest = torch.cat((rest, self.recurrent), 1) if self.joined else rest
        self.given = Repeated(linear(x, weight[:, :known], bias), rest)

    def step(self, x: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The cell's own `step`, from the rest of its input."""
        if self.known is not None:
            return self.cell.step(torch.cat((next(self.known), x), -1), carry)
        cell, before = self.cell, tuple(piece[:, 0] for piece in carry)
        hidden = before[0]
        given = self.given(torch.cat((x, hidden), -1) if self.joined else x)
        held = None if self.joined else linear(hidden, self.recurrent, self.other).to(hidden.dtype)
        given = given.to(hidden.dtype)
        if cell.kind == "lstm":
            return cell.climb(pass_gates(given, before[1]), carry)
        return cell.climb((cell._tick(given, held, before)["hidden"],), carry)


class Again:
    """A cell that steps over and over from the input of one position: what that says is computed once, for all of them.

    The cell's input has one channel more than what is given. It is a flag: 1 at the first step from an input, else 0.
    """

    def __init__(self, cell: Cell, x: Tensor) -> None:
        """`x`: (rows, time, …)"""
        self.cell = cell
        self.known = x.unbind(1) if isinstance(cell.fused, PackedGates) else None
        if self.known is not None:
            return
        weight, self.recurrent, bias, self.other = cell._weights(0)
        self.flag = weight[:, -1]
        self.given = linear(x, weight[:, :-1], bias).unbind(1)

    def step(self, time: int, carry: Carry, first: bool) -> tuple[Tensor, Carry]:
        """The cell's own `step`, from the input at some position."""
        if self.known is not None:
            return self.cell.step(F.pad(self.known[time], (0, 1), value=float(first)), carry)
        cell, before = self.cell, tuple(piece[:, 0] for piece in carry)
        given = self.given[time] + self.flag if first else self.given[time]
        values = cell._tick(given, linear(before[0], self.recurrent, self.other), before)
        return cell.climb(tuple(values[name] for name in ("hidden", "cell")[: cell.pieces]), carry)


class Watched:
    """A cell that steps in the open through the positions of a call, and shows at the end what was inside."""

    def __init__(self, cell: Cell, path: str, view: View) -> None:
        self.cell, self.path, self.view = cell, path, view
        self.impulse = view.see(path, "impulse", view.zeros(view.mask.rows, cell.layers, view.mask.time, cell.size))
        self.seen: list[Values] = []

    def step(self, x: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The cell's own `step`."""
        values, carry = self.cell.step_openly(x, carry, self.impulse[:, :, len(self.seen)])
        self.seen.append(values)
        return values["hidden"][:, -1], carry

    def report(self) -> None:
        """Show each value of all positions: (rows, layers, time, size)."""
        for name in self.seen[0]:
            show(self.view, self.path, name, torch.stack([values[name] for values in self.seen], 2))


def show(view: View, path: str, name: str, value: Tensor) -> None:
    """Report what a recurrence computed. It has run by then, so who changes the value is told how to be heard."""
    if view.see(path, name, value) is not value:
        raise InputError(
            f"{path}.{name} can be seen and not changed: the recurrence has run by then",
            f"change {path}.impulse, which is added to its hidden vectors on the way",
        )


def reverse(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Turn each row's real tokens round; pads stay last."""
    if lengths is None:
        return x.flip(1)
    index = torch.arange(x.shape[1], device=x.device)[None]
    turned = torch.where(index < lengths[:, None], lengths[:, None] - 1 - index, index)
    return x.gather(1, turned[..., None].expand_as(x))


def drop_between(x: Tensor, lengths: Tensor | None, rate: float) -> Tensor:
    """Dropout of (rows, time, width) as the fused kernel draws it, so that watching in training changes nothing."""
    if lengths is None:
        return F.dropout(x.transpose(0, 1).contiguous(), rate).transpose(0, 1)  # it keeps time in front
    packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
    packed = PackedSequence(F.dropout(packed.data, rate), *packed[1:])
    return pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])[0]


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
