"""Gradients through time, against finite differences and the formula; gates, against counting."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.model import Model
from regard.core.probe import Both, Edit, Record
from regard.errors import InputError
from regard.lens.finding import Tap, ask, choose_answers, measure_loss
from regard.lens.look import Look
from regard.lens.recurrence import gate_saturation, gradient_through_time, hidden_jacobians
from tests.lens.texts import SOURCE, build, look_at

LONG = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3)
MIX = "decoder.blocks.0.mix"


def recurrent_weight(model: Model) -> Tensor:
    return dict(model.named_parameters())["decoder.blocks.0.mix.inner.cell.fused.weight_hh_l0"].detach()


@torch.no_grad()
def loss_with(look: Look, name: str, layer: int, place: int, channel: int, size: float) -> float:
    def kick(impulse: Tensor) -> Tensor:
        impulse[0, layer, place, channel] = size
        return impulse

    return float(measure_loss(look, ask(look, Edit({name: kick})), choose_answers(look)))


@pytest.mark.parametrize("cell", ["rnn", "relu"])
def test_gradients_through_time_are_the_jacobian_product_of_the_formula(cell: str) -> None:
    """∂L/∂h_k = Σ_t (∏_{k<s≤t} Wᵀ diag φ'(h_s)) d_t, where d_t is what the loss takes from h_t at once."""
    look = look_at(build("rnn", cell=cell, depth=1), LONG)
    found = gradient_through_time(look)
    weight, hidden = recurrent_weight(look.model), look.values(f"{MIX}.hidden")[f"{MIX}.hidden"][0]
    slope = 1 - hidden**2 if cell == "rnn" else (hidden > 0).double()  # φ' by what φ gave
    tap = Tap(f"{MIX}.output")
    at_once = tap.gradients(measure_loss(look, ask(look, tap), choose_answers(look))[0])[f"{MIX}.output"][0][1][0]
    expected = []
    for k in range(len(LONG)):
        total, product = torch.zeros(16, dtype=torch.float64), torch.eye(16, dtype=torch.float64)
        for t in range(k, len(LONG)):
            if t > k:
                product = product @ weight.mT @ slope[t].diag()
            total = total + product @ at_once[t]
        expected.append(total)
    torch.testing.assert_close(found.gradients[MIX][0], torch.stack(expected), atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(found.norms[MIX][0], torch.stack(expected).norm(dim=-1))
    assert found.loss == pytest.approx(-sum(each.log_probability for each in look.predictions()) / 9, rel=1e-5)


RECURRENCES: list[tuple[str, dict[str, Any]]] = [
    ("rnn", {"depth": 1}),
    ("lstm", {"depth": 2}),
    ("gru", {"depth": 1, "mix": {"layers": 2}}),
    ("rnn-skip", {"depth": 1, "mix": {"skip": 3}}),
    ("seq2seq", {"depth": 1}),
    ("bahdanau", {"depth": 1}),
    ("ntm", {}),
]


@pytest.mark.parametrize(("name", "settings"), RECURRENCES)
def test_gradients_through_time_equal_finite_differences(name: str, settings: dict[str, Any]) -> None:
    look = look_at(build(name, **settings), source=SOURCE if name in ("seq2seq", "bahdanau") else None)
    found = gradient_through_time(look)
    assert {f"{path}.impulse" for path in found.gradients} == {n for n in look.model.names() if n.endswith("impulse")}
    generator = torch.Generator().manual_seed(0)
    for path, gradient in found.gradients.items():
        assert gradient.abs().max() > 0
        layers, time, size = gradient.shape
        for _ in range(6):
            layer, place, channel = (
                int(torch.randint(most, (1,), generator=generator)) for most in (layers, time, size)
            )
            more, less = (loss_with(look, f"{path}.impulse", layer, place, channel, step) for step in (1e-5, -1e-5))
            slope = (more - less) / 2e-5
            assert float(gradient[layer, place, channel]) == pytest.approx(slope, abs=1e-9, rel=1e-5)


@pytest.mark.parametrize("cell", ["rnn", "relu"])
def test_a_jacobian_is_the_product_of_the_steps_between(cell: str) -> None:
    look = look_at(build("rnn", cell=cell, depth=1), LONG)
    found = hidden_jacobians(look, position=8)
    weight, hidden = recurrent_weight(look.model), look.values(f"{MIX}.hidden")[f"{MIX}.hidden"][0]
    slope = 1 - hidden**2 if cell == "rnn" else (hidden > 0).double()
    assert (found.path, found.layer, found.position) == (MIX, 0, 8)
    assert not found.matrices[9].any()
    product = torch.eye(16, dtype=torch.float64)
    for k in range(8, -1, -1):
        torch.testing.assert_close(found.matrices[k], product)
        assert float(found.norms[k]) == pytest.approx(float(torch.linalg.svdvals(product)[0]))
        product = product @ slope[k].diag() @ weight


@pytest.mark.parametrize(("name", "layer"), [("lstm", 0), ("gru", 1), ("bilstm", 1), ("ntm", 0), ("bahdanau", 0)])
def test_a_jacobian_is_what_small_changes_do(name: str, layer: int) -> None:
    settings: dict[str, Any] = {"depth": 1} if name != "ntm" else {}
    settings |= {"mix": {"layers": 2}} if name == "gru" else {}
    look = look_at(build(name, **settings), source=SOURCE if name == "bahdanau" else None)
    position = 2 if name == "bilstm" else 5
    found = hidden_jacobians(look, layer=layer, position=position)
    back = name == "bilstm"  # its second direction comes from the end
    for k, norm in enumerate(found.norms.tolist()):
        assert (norm > 0) == (k >= position if back else k <= position)
    k = 4 if back else 3

    @torch.no_grad()
    def hidden(channel: int, step: float) -> Tensor:
        def kick(impulse: Tensor) -> Tensor:
            impulse[0, layer, k, channel] = step
            return impulse

        record = Record(f"{found.path}.hidden")
        ask(look, Both(Edit({f"{found.path}.impulse": kick}), record))
        return record[f"{found.path}.hidden"][0, layer, position]

    for channel in (0, 3):
        change = (hidden(channel, 1e-5) - hidden(channel, -1e-5)) / 2e-5
        torch.testing.assert_close(found.matrices[k][:, channel], change, atol=1e-8, rtol=1e-5)


@torch.no_grad()
def test_saturation_counts_gates_over_time() -> None:
    model = build("lstm", depth=2)
    texts = [look_at(model, LONG), look_at(model, (1, 2, 3))]
    found = gate_saturation(texts)
    assert found.positions == 13
    names = [name for name in model.names() if name.endswith("_gate")]
    assert len(names) == 6
    assert list(found.closed) == list(found.open) == names
    for name in names:
        values = torch.cat([look.values(name)[name] for look in texts], 1)  # (layers, time, size)
        for unit in range(16):
            gates = values[0, :, unit].tolist()
            assert float(found.closed[name][0, unit]) == pytest.approx(sum(gate < 0.1 for gate in gates) / 13)
            assert float(found.open[name][0, unit]) == pytest.approx(sum(gate > 0.9 for gate in gates) / 13)
    wide = build("lstm", depth=1)
    with torch.no_grad():
        for name, weight in wide.named_parameters():
            if name.endswith("bias_ih_l0"):
                weight[:16], weight[16:32] = -20, 20  # nothing enters, all is kept
    kept = gate_saturation(look_at(wide))
    assert (kept.closed[f"{MIX}.input_gate"] == 1).all()
    assert (kept.open[f"{MIX}.forget_gate"] == 1).all()
    assert not kept.open[f"{MIX}.input_gate"].any()
    assert json.dumps(kept.as_json(), allow_nan=False)


def test_what_is_no_recurrence_is_refused() -> None:
    attends = look_at(build("gpt2", depth=1, heads=2))
    for analysis in (gradient_through_time, hidden_jacobians):
        with pytest.raises(InputError, match="nothing in this model is a recurrence"):
            analysis(attends)
    with pytest.raises(InputError, match="nothing here is called"):
        gate_saturation(attends)
    look = look_at(build("lstm", depth=1))
    with pytest.raises(
        InputError, match=r"encoder is no recurrence of this model(.|\n)*one of decoder\.blocks\.0\.mix"
    ):
        hidden_jacobians(look, "encoder")
    with pytest.raises(InputError, match="has 1 layers and 6 positions, and not 1 and 5"):
        hidden_jacobians(look, layer=1)
    with pytest.raises(InputError, match=r"mix\.hidden is no impulse"):
        gradient_through_time(look, pattern="*.hidden")
