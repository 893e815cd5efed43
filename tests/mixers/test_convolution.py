"""A convolution over positions, against its formula and torch's own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.core.view import View
from regard.errors import SpecError
from regard.mixers.convolution import Convolution, GatedConvolution


@pytest.mark.parametrize(("kernel", "dilation"), [(2, 1), (3, 1), (3, 4), (4, 2)])
@pytest.mark.parametrize("causal", [True, False])
@torch.no_grad()
def test_it_is_a_sum_over_neighbours_and_a_gate(kernel: int, dilation: int, causal: bool) -> None:
    mixer = Convolution(kernel=kernel, dilation=dilation, causal=causal).build(6)
    assert isinstance(mixer, GatedConvolution) and mixer.convolution.bias is not None
    torch.nn.init.normal_(mixer.convolution.bias)
    x = torch.randn(2, 9, 6)
    reach = (kernel - 1) * dilation
    first = -reach if causal else -(reach - reach // 2)
    total = mixer.convolution.bias.expand(2, 9, -1).clone()
    for tap in range(kernel):
        for time in range(9):
            at = time + first + tap * dilation
            if 0 <= at < 9:
                total[:, time] += x[:, at] @ mixer.convolution.weight[:, :, tap].T
    expected = total[..., :6] * torch.sigmoid(total[..., 6:])
    torch.testing.assert_close(mixer(x, View.of(x)), expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_without_a_gate_it_drops_what_is_negative() -> None:
    mixer = Convolution(gated=False).build(6)
    assert isinstance(mixer, GatedConvolution)
    x = torch.randn(2, 9, 6)
    expected = F.relu(F.conv1d(x.mT, mixer.convolution.weight, mixer.convolution.bias, padding=1)).mT
    torch.testing.assert_close(mixer(x, View.of(x)), expected)


@torch.no_grad()
def test_it_starts_such_that_signals_keep_their_size() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 64, 128)
    for gated in (True, False):
        y = Convolution(gated=gated).build(128)(x, View.of(x))
        assert 0.5 < float(y.square().mean()) < 2, gated


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"kernel": 1}, "sees no neighbour"), ({"kernel": 3, "dilation": 2**23}, "span more than 1,048,576 positions")],
)
def test_what_makes_no_convolution_is_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Convolution(**settings).build(8)
