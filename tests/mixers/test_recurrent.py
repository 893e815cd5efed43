"""A skip connection in time, against its formula; and a recurrence in the open, against the fused kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from regard.core.probe import Edit, Record, Sight
from regard.core.view import View
from regard.errors import InputError, SpecError
from regard.mixers.recurrent import Recurrence, Recurrent, RecurrentState
from regard.parts.cell import Kind


@pytest.mark.parametrize("skip", [1, 3, 20])
@torch.no_grad()
def test_a_step_sees_the_output_of_so_many_steps_ago(skip: int) -> None:
    torch.manual_seed(0)
    mixer = Recurrent(cell="rnn", skip=skip).build(4)
    assert isinstance(mixer, Recurrence)
    weights = [getattr(mixer.cell.fused, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    x, hidden = torch.randn(2, 9, 4), torch.zeros(2, 4)
    outputs = [torch.zeros(2, 4)] * skip
    for time in range(9):
        hidden = torch.rnn_tanh_cell(torch.cat((x[:, time], outputs[-skip]), -1), hidden, *weights)
        outputs.append(hidden)
    torch.testing.assert_close(mixer(x, View.of(x)), torch.stack(outputs[skip:], 1), atol=1e-6, rtol=1e-5)


def test_a_skip_carries_a_gradient_far_back() -> None:
    """Through a plain network it vanishes; through skips it comes back in a ninth of the steps."""

    def reach(skip: int | None) -> float:
        torch.manual_seed(0)
        mixer = Recurrent(cell="rnn", skip=skip).build(16)
        x = torch.randn(1, 73, 16).requires_grad_()
        (grad,) = torch.autograd.grad(mixer(x, View.of(x))[:, -1].square().sum(), x)
        return float(grad[:, 0].norm())

    assert reach(9) > 100 * reach(None) > 0


def test_a_skip_needs_the_output_of_one_direction() -> None:
    with pytest.raises(SpecError, match="skip: it leads back to one direction's output, and 2 layers join both"):
        Recurrent(skip=2, layers=2, direction="both").build(8)


VARIANTS: list[dict[str, Any]] = [
    *({"cell": cell, "layers": 2, "direction": "both"} for cell in ("rnn", "relu", "gru", "lstm")),
    *({"cell": "gru", "layers": 2, "direction": way} for way in ("forward", "backward", "apart")),
    *({"cell": "lstm", "skip": 3, "direction": way} for way in ("forward", "backward", "both", "apart")),
    {"cell": "rnn", "layers": 3, "skip": 2},
]


def build(width: int = 8, dtype: torch.dtype = torch.float32, **settings: Any) -> Recurrence:
    torch.manual_seed(0)
    mixer = Recurrent(**settings).build(width).to(dtype)
    assert isinstance(mixer, Recurrence)
    for weight in mixer.parameters():
        torch.nn.init.normal_(weight, std=0.4)  # biases too
    return mixer.eval()


def edit(name: str, change: Callable[[Tensor], Tensor]) -> Edit:
    """An edit of a mixer that stands in no model."""
    made = Edit({f"mixer.{name}": change})
    made.begin(Sight(frozenset([f"mixer.{name}"])))
    return made


def padded(side: str) -> tuple[Tensor, Tensor | None]:
    """Three rows of up to nine positions, the pads full of junk, one row all pads; and which tokens are real."""
    x = torch.randn(4, 9, 8, generator=torch.Generator().manual_seed(1))
    if side == "none":
        return x, None
    steps, lengths = torch.arange(9)[None], torch.tensor([9, 5, 0, 1])[:, None]
    return x, steps < lengths if side == "right" else steps >= 9 - lengths


@pytest.mark.parametrize("side", ["none", "left", "right"])
@pytest.mark.parametrize("settings", VARIANTS, ids=str)
@torch.no_grad()
def test_a_recurrence_in_the_open_is_that_of_the_fused_kernel(settings: dict[str, Any], side: str) -> None:
    """Outputs, what is carried on, and what the lower layers hide."""
    mixer, (x, valid), record = build(**settings), padded(side), Record("*")
    real = torch.ones(4, 9, dtype=torch.bool) if valid is None else valid
    fused, opened = (mixer.start(4, View.of(x[:, :0])) for _ in range(2))
    assert isinstance(fused, RecurrentState)
    assert isinstance(opened, RecurrentState)
    expected = mixer(x, View.of(x, valid, fused), fused)
    found = mixer(x, View.of(x, valid, opened, probe=record), opened)
    torch.testing.assert_close(found[real], expected[real])
    torch.testing.assert_close(opened.carry, fused.carry)
    torch.testing.assert_close(opened.earlier, fused.earlier)
    hidden = record["mixer.hidden"]
    assert hidden.shape == (4, mixer.spec.layers * mixer.directions, 9, 8 // mixer.directions)
    # where a direction ends, its hidden vector is what it carries on: after the last token, or the first
    for row, length in enumerate(real.sum(1).tolist()):
        for place in range(hidden.shape[1] if length else 0):
            back = settings.get("direction") == "backward" or (mixer.directions == 2 and place % 2 == 1)
            ends = hidden[row, place, real[row]][0 if back else -1]
            torch.testing.assert_close(ends, opened.carry[0][row, place])


@pytest.mark.parametrize("side", ["none", "left"])
@pytest.mark.parametrize("direction", ["forward", "both", "apart"])
def test_watching_in_training_draws_the_same_dropout(direction: Literal["forward", "both", "apart"], side: str) -> None:
    mixer, (x, valid) = build(cell="gru", layers=3, direction=direction, dropout=0.5).train(), padded(side)

    def run(probe: Record | None, seed: int) -> Tensor:
        torch.manual_seed(seed)
        found: Tensor = mixer(x, View.of(x, valid, probe=probe))
        return found if valid is None else found[valid]

    torch.testing.assert_close(run(Record("*"), 3), run(None, 3))
    assert not torch.allclose(run(Record("*"), 3), run(Record("*"), 4))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@torch.no_grad()
def test_gates_are_those_of_the_equations(cell: Kind) -> None:
    """Each gate is σ(W x + b + U h + c), with the last step's hidden vector; the memory and the output follow."""
    mixer, (x, _), record = build(cell=cell), padded("none"), Record("*")
    mixer(x, View.of(x, probe=record))
    seen = {name.removeprefix("mixer."): record[name][:, 0] for name in record}  # (rows, time, size)
    before = torch.cat((torch.zeros(4, 1, 8), seen["hidden"][:, :-1]), 1)
    weights = dict(mixer.cell.fused.named_parameters())
    given = x @ weights["weight_ih_l0"].mT + weights["bias_ih_l0"]
    held = before @ weights["weight_hh_l0"].mT + weights["bias_hh_l0"]
    assert not seen["impulse"].any()
    if cell == "lstm":
        enter, forget, new, leave = (given + held).chunk(4, -1)
        torch.testing.assert_close(seen["input_gate"], enter.sigmoid())
        torch.testing.assert_close(seen["forget_gate"], forget.sigmoid())
        torch.testing.assert_close(seen["output_gate"], leave.sigmoid())
        old = torch.cat((torch.zeros(4, 1, 8), seen["cell"][:, :-1]), 1)
        torch.testing.assert_close(seen["cell"], seen["forget_gate"] * old + seen["input_gate"] * new.tanh())
        torch.testing.assert_close(seen["hidden"], seen["output_gate"] * seen["cell"].tanh())
    else:
        reset, update, _ = (given + held).chunk(3, -1)
        new = (given.chunk(3, -1)[2] + seen["reset_gate"] * held.chunk(3, -1)[2]).tanh()
        torch.testing.assert_close(seen["reset_gate"], reset.sigmoid())
        torch.testing.assert_close(seen["update_gate"], update.sigmoid())
        torch.testing.assert_close(seen["hidden"], seen["update_gate"] * before + (1 - seen["update_gate"]) * new)


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_gradient_of_an_impulse_is_what_a_small_one_changes(settings: dict[str, Any], side: str) -> None:
    """Finite differences through the whole recurrence, at a position of each row, layer and direction."""
    mixer, (x, valid) = build(dtype=torch.float64, **settings), padded(side)
    assert valid is not None
    goal = torch.randn(4, 9, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    zeros: list[Tensor] = []

    def loss(change: Tensor | None) -> Tensor:
        def kick(impulse: Tensor) -> Tensor:
            zeros.append(impulse.requires_grad_())
            return impulse if change is None else impulse + change

        y = mixer(x.double(), View.of(x.double(), valid, probe=edit("impulse", kick)))
        return (y * goal)[valid].sum()

    (grad,) = torch.autograd.grad(loss(None), zeros)
    pads = ~valid[:, None, :, None].expand_as(grad)
    assert not grad[pads].any()  # a pad moves nothing
    assert (grad.abs().amax(-1)[valid[:, None].expand(grad.shape[:3])] > 0).all()
    for place in torch.randperm(grad.numel(), generator=torch.Generator().manual_seed(3))[:12].tolist():
        small = torch.zeros(grad.numel(), dtype=torch.float64)
        small[place] = 1e-5
        with torch.no_grad():
            change = loss(small.view(grad.shape)) - loss(-small.view(grad.shape))
        torch.testing.assert_close(change / 2e-5, grad.flatten()[place], atol=1e-8, rtol=1e-5)


@torch.no_grad()
def test_what_is_seen_too_late_can_not_be_changed_in_silence() -> None:
    mixer, (x, _) = build(), padded("none")
    for name in ("cell", "forget_gate"):
        with pytest.raises(InputError, match=rf"mixer.{name} can be seen and not changed(.|\n)*mixer.impulse"):
            mixer(x, View.of(x, probe=edit(name, torch.zeros_like)))


@torch.no_grad()
def test_the_output_is_what_becomes_of_the_last_layer() -> None:
    mixer, (x, _) = build(layers=2, direction="both"), padded("none")
    expected = mixer(x, View.of(x))
    doubled = mixer(x, View.of(x, probe=edit("hidden", lambda hidden: 2 * hidden)))
    torch.testing.assert_close(doubled, 2 * expected)


@pytest.mark.parametrize(("layers", "names", "opened"), [(1, "hidden", 0), (1, "*", 1), (2, "hidden", 1)])
@torch.no_grad()
def test_only_who_looks_inside_leaves_the_fused_kernel(
    layers: int, names: str, opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixer, (x, _), record, calls = build(layers=layers), padded("none"), Record(f"mixer.{names}"), []
    openly = mixer.cell.openly

    def count(*given: Any) -> Any:
        calls.append(1)
        return openly(*given)

    monkeypatch.setattr(mixer.cell, "openly", count)
    y = mixer(x, View.of(x, probe=record))
    assert len(calls) == opened
    torch.testing.assert_close(record["mixer.hidden"][:, -1], y)
