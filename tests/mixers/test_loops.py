"""Attentive decoders and the Turing machine, which have loops of their own, while somebody looks into the cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import regard.mixers  # noqa: F401
from regard.core.mixer import Mixer, MixerSpec
from regard.core.probe import Edit, Record, Sight
from regard.core.state import Memory
from regard.core.view import View
from regard.errors import InputError
from regard.parts.cell import SIGHTS

SPECS: list[dict[str, Any]] = [
    {"kind": "attentive", "when": "before", "cell": "gru", "layers": 2},
    {"kind": "attentive", "when": "after", "cell": "lstm", "layers": 2, "score": "multiplicative", "start": "mean"},
    {"kind": "attentive", "when": "after", "cell": "rnn", "feed": True, "score": "dot"},
    {"kind": "turing", "cell": "lstm", "slots": 6, "size": 3},
]


def build(settings: dict[str, Any]) -> tuple[Mixer, Memory | None]:
    torch.manual_seed(0)
    mixer = MixerSpec.parse(settings).build(6).double().eval()
    for weight in mixer.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    memory = torch.randn(3, 4, 6, dtype=torch.float64)
    return mixer, Memory(tensors=(memory,)) if mixer.recalls else None


def padded() -> tuple[Tensor, Tensor]:
    x = torch.randn(3, 7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return x, torch.arange(7)[None] >= 7 - torch.tensor([7, 4, 1])[:, None]


def edit(name: str, change: Callable[[Tensor], Tensor]) -> Edit:
    """An edit of a mixer that stands in no model."""
    made = Edit({f"mixer.{name}": change})
    made.begin(Sight(frozenset([f"mixer.{name}"])))
    return made


@pytest.mark.parametrize("settings", SPECS, ids=str)
@torch.no_grad()
def test_looking_into_the_cell_changes_nothing(settings: dict[str, Any]) -> None:
    (mixer, memory), (x, valid) = build(settings), padded()
    cell, layers = settings["cell"], settings.get("layers", 1)
    record = Record(*(f"mixer.{name}" for name in SIGHTS[cell]))
    fused, opened = (mixer.start(3, View.of(x, memory=memory)) for _ in range(2))
    for chunk, real in zip(x.split([4, 1, 2], 1), valid.split([4, 1, 2], 1), strict=True):
        expected = mixer(chunk, View.of(chunk, real, fused, memory=memory), fused)
        found = mixer(chunk, View.of(chunk, real, opened, memory=memory, probe=record), opened)
        torch.testing.assert_close(found[real], expected[real])
    assert {value.shape for value in record.values()} == {(3, layers, 7, 6)}
    carry: tuple[Tensor, ...] = vars(opened)["carry"]
    torch.testing.assert_close(carry, vars(fused)["carry"])
    torch.testing.assert_close(record["mixer.hidden"][:, :, -1], carry[0])
    if cell == "lstm":
        torch.testing.assert_close(record["mixer.cell"][:, :, -1], carry[1])


@pytest.mark.parametrize("settings", SPECS, ids=str)
def test_the_gradient_of_an_impulse_is_what_a_small_one_changes(settings: dict[str, Any]) -> None:
    """Through later steps, attention, what is fed back, and what the machine writes and reads."""
    (mixer, memory), (x, valid) = build(settings), padded()
    goal = torch.randn(3, 7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    zeros: list[Tensor] = []

    def loss(change: Tensor | None) -> Tensor:
        def kick(impulse: Tensor) -> Tensor:
            zeros.append(impulse.requires_grad_())
            return impulse if change is None else impulse + change

        y = mixer(x, View.of(x, valid, memory=memory, probe=edit("impulse", kick)))
        return (y * goal)[valid].sum()

    (grad,) = torch.autograd.grad(loss(None), zeros)
    assert not grad[~valid[:, None, :, None].expand_as(grad)].any()
    assert (grad.abs().amax(-1)[valid[:, None].expand(grad.shape[:3])] > 0).all()
    for place in torch.randperm(grad.numel(), generator=torch.Generator().manual_seed(3))[:12].tolist():
        small = torch.zeros(grad.numel(), dtype=torch.float64)
        small[place] = 1e-5
        with torch.no_grad():
            change = loss(small.view(grad.shape)) - loss(-small.view(grad.shape))
        torch.testing.assert_close(change / 2e-5, grad.flatten()[place], atol=1e-8, rtol=1e-5)


@pytest.mark.parametrize("settings", SPECS, ids=str)
@torch.no_grad()
def test_what_has_been_used_already_can_not_be_changed_in_silence(settings: dict[str, Any]) -> None:
    (mixer, memory), (x, valid) = build(settings), padded()
    with pytest.raises(InputError, match=r"mixer.hidden can be seen and not changed(.|\n)*mixer.impulse"):
        mixer(x, View.of(x, valid, memory=memory, probe=edit("hidden", torch.zeros_like)))
