"""Models of pixels: nothing leaks from a later pixel or channel, and what is drawn is as likely as what is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from regard.core.model import Model
from regard.core.order import Order
from regard.models import preset

HEIGHT, WIDTH, LEVELS = 4, 5, 3
RASTERS = ("pixel-gpt", "pixel-lstm", "pixel-mamba")  # which read pixels in any order
NAMES = ("pixelcnn", "pixelrnn-row", "pixelrnn-diagonal", *RASTERS)
OTHERS: tuple[Order, ...] = ("s-curve", "hilbert", "random")


def build(name: str, channels: int, order: Order = "raster") -> Model:
    torch.manual_seed(1)
    sizes = {"image": (HEIGHT, WIDTH), "channels": channels, "levels": LEVELS, "width": 16, "depth": 2}
    spec = preset(name, **sizes)
    stack = spec.main.replace(embedding=spec.main.embedding.reorder(order))
    return spec.replace(decoder=stack).build().eval()


def list_slopes(model: Model, channels: int) -> Iterator[set[int]]:
    """For each value of a picture, the slots that its scores have a slope by."""
    count = HEIGHT * WIDTH * channels
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(2)  # so that no slope is lost in rounding
    embedded: list[Tensor] = []
    assert model.decoder is not None
    model.decoder.embedding.register_forward_hook(lambda module, inputs, x: embedded.append(x))
    logits = model(torch.cat((torch.tensor([[LEVELS]]), torch.randint(LEVELS, (1, count - 1))), 1))
    for value in range(count):
        (slope,) = torch.autograd.grad(logits[0, value].square().sum(), embedded[0], retain_graph=True)
        yield set(slope.abs().sum((0, 2)).nonzero()[:, 0].tolist())


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_no_pixel_and_no_channel_sees_itself_or_a_later_one(name: str, channels: int) -> None:
    for value, seen in enumerate(list_slopes(build(name, channels), channels)):
        assert max(seen, default=0) <= value  # slot s holds value s - 1
        place, channel = divmod(value, channels)
        row, column = divmod(place, WIDTH)
        around = [(row, column - 1), (row - 1, column), (row - 1, column + 1)]  # left, above, above right
        near = [row * WIDTH + column for row, column in around if row >= 0 and 0 <= column < WIDTH]
        promised = {place * channels + its for place in near for its in range(channels)}
        promised |= {place * channels + its for its in range(channels) if its < channel}
        if name == "pixelrnn-diagonal":
            # mask A hides a pixel from its own place, so the last one of a row is seen by its neighbours in the next
            far = {place - column - 1} if WIDTH - 1 - column > 3 else set()
            promised = {before for before in range(value) if before // channels not in far}
        assert {value + 1 for value in promised} <= seen, f"value {value}"


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("order", OTHERS)
@pytest.mark.parametrize("name", RASTERS)
def test_in_any_order_a_value_sees_all_that_come_before_it_and_none_else(
    name: str, order: Order, channels: int
) -> None:
    for value, seen in enumerate(list_slopes(build(name, channels, order), channels)):
        assert seen | {0} == set(range(value + 1))  # slot s holds value s - 1, and slot 0 the beginning


@torch.no_grad()
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_drawn_has_the_probability_that_is_read(name: str, channels: int) -> None:
    model, rows = build(name, channels), 3
    state, token = model.start(rows), torch.full((rows,), LEVELS)
    drawn, told = [token], []
    for _ in range(HEIGHT * WIDTH * channels):
        scores = model.step(token, state).log_softmax(-1)
        token = torch.multinomial(scores.exp(), 1)[:, 0]
        told.append(scores.gather(1, token[:, None])[:, 0])
        drawn.append(token)
    values = torch.stack(drawn, 1)
    read = model(values[:, :-1]).log_softmax(-1).gather(2, values[:, 1:, None])[..., 0]
    torch.testing.assert_close(torch.stack(told, 1), read, atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.stack(told, 1).double().sum(1), read.double().sum(1), atol=1e-5, rtol=1e-6)
