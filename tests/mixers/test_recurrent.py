"""A skip connection in time, against its formula."""

from __future__ import annotations

import pytest
import torch

from regard.core.view import View
from regard.errors import SpecError
from regard.mixers.recurrent import Recurrence, Recurrent


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
