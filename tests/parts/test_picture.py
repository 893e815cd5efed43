"""Pictures as sequences: patches, plain, overlapping and shifted, against squares cut by hand; other sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from regard.core.grid import Grid
from regard.core.model import ModelSpec
from regard.core.view import View
from regard.core.weights import redraw
from regard.errors import InputError, SpecError
from regard.models import preset
from regard.parts.convolutions import Convolutions
from regard.parts.picture import Patches, Pictures, interpolate_places

WIDTH = 8


def build(spec: Pictures) -> Any:
    torch.manual_seed(1)
    module = spec.build(WIDTH)
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_()
    return module


def read(module: Any, picture: torch.Tensor) -> torch.Tensor:
    rows, time = module.measure(picture)
    view = View.of(torch.zeros(rows, time, 1))
    view.grid = module.grid
    found: torch.Tensor = module(picture, view)
    return found


def test_a_picture_neednt_be_square_and_patches_may_overlap() -> None:
    spec = Patches(image=(6, 10), patch=4, stride=2, channels=2, first=False, position="none")
    assert (spec.grid, spec.picture, spec.limit) == (Grid(2, 4), (6, 10, 2), 8)
    module, picture = build(spec), torch.randn(3, 2, 6, 10)
    found = read(module, picture)
    for place in range(8):
        top, left = 2 * (place // 4), 2 * (place % 4)
        square = picture[:, :, top : top + 4, left : left + 4].flatten(1)
        torch.testing.assert_close(found[:, place], module.project(square))


def test_shifted_patches_see_half_a_patch_around() -> None:
    """The four diagonal shifts, zeros outside, a norm, then the projection (Lee et al. 2021)."""
    module = build(Patches(image=8, patch=4, channels=1, shifted=True, first=False, position="none"))
    picture = torch.randn(2, 1, 8, 8)
    wide = F.pad(picture, (2, 2, 2, 2))
    found = read(module, picture)
    for place in range(4):
        top, left = 4 * (place // 2), 4 * (place % 2)
        around = [(0, 0), (2, 2), (2, -2), (-2, 2), (-2, -2)]
        squares = [wide[:, :, 2 + top + y :, 2 + left + x :][:, :, :4, :4].flatten(1) for y, x in around]
        torch.testing.assert_close(found[:, place], module.project(module.norm(torch.cat(squares, 1))))


def test_tokens_stand_in_front_and_places_behind_them() -> None:
    spec = Patches(image=4, patch=2, channels=1, taught=True)
    assert spec.grid == Grid(2, 2, first=2)
    module = build(spec)
    found = read(module, torch.randn(3, 1, 4, 4))
    torch.testing.assert_close(found[:, 0], (module.first[0, 0] + module.position[0, 0]).expand(3, -1))
    torch.testing.assert_close(found[:, 1], (module.second[0, 0] + module.position[0, 1]).expand(3, -1))
    assert set(module.undecayed) == {"first", "second", "position"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"image": 30, "patch": 4}, "28 or 32 would do, as would patch=3"),
        ({"image": (32, 30), "patch": 4, "stride": 3}, "image 32 doesn't hold patches of 4, each 3 further.*31 or 34"),
        ({"image": 8, "patch": 2, "stride": 4}, "would pass over pixels"),
        ({"image": 8, "patch": 16}, "not divisible by patch 16; 16 would do"),
        ({"image": 8, "patch": 2, "first": False, "taught": True}, "try first=true"),
    ],
)
def test_what_cannot_be_cut_is_refused_with_a_way_out(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Patches(**settings)


def test_another_size_keeps_the_patch() -> None:
    spec = Patches(image=8, patch=4, channels=1).redraw(12, 20, 3)
    assert (spec.picture, spec.patch, spec.limit) == ((12, 20, 3), 4, 16)
    beside = Patches(image=8, patch=4, position={"kind": "learned", "context": 5, "join": "concatenate"})
    assert beside.redraw(12, 12, 3).absolute.limit == 10  # type: ignore[union-attr]
    with pytest.raises(SpecError, match="12 or 16 would do"):
        Patches(image=8, patch=4).redraw(14, 14, 3)


def test_a_picture_of_another_size_or_type_is_refused() -> None:
    module = build(Patches(image=4, patch=2, channels=1))
    with pytest.raises(InputError, match=r"floats of shape \(rows, 1, 4, 4\), not torch.float32 \(1, 1, 4, 6\)"):
        module.measure(torch.zeros(1, 1, 4, 6))
    with pytest.raises(InputError, match="uint8"):
        module.measure(torch.zeros(1, 1, 4, 4, dtype=torch.uint8))


def test_interpolation_leaves_tokens_and_the_same_size_alone() -> None:
    vectors = torch.randn(1, 2 + 6, WIDTH)
    same = interpolate_places(vectors, Grid(2, 3, first=2), Grid(2, 3, first=2))
    torch.testing.assert_close(same, vectors)
    larger = interpolate_places(vectors, Grid(2, 3, first=2), Grid(4, 5, first=2))
    assert larger.shape == (1, 22, WIDTH) and torch.equal(larger[:, :2], vectors[:, :2])
    flat = interpolate_places(torch.ones(1, 4, WIDTH), Grid(2, 2), Grid(5, 3))
    torch.testing.assert_close(flat, torch.ones(1, 15, WIDTH))


def test_a_model_is_redrawn_with_all_that_it_learned() -> None:
    model = preset("cct-2-3x2", width=16, hidden=16, image=16).build().eval()
    larger = redraw(model, 32, 16)
    assert larger(torch.randn(2, 3, 32, 16)).shape == (2, 10)
    moved = {name for name, weight in larger.state_dict().items() if weight.shape != model.state_dict()[name].shape}
    assert moved == {"encoder.embedding.position"}
    picture = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(redraw(larger, 32, 16)(torch.ones(1, 3, 32, 16)), larger(torch.ones(1, 3, 32, 16)))
    torch.testing.assert_close(redraw(model, 16, 16)(picture), model(picture))
    with pytest.raises(InputError, match="reads no pictures"):
        redraw(preset("bert-tiny").build(), 8, 8)
    with pytest.raises(SpecError, match="not divisible"):
        redraw(preset("vit-tiny").build(), 9, 9)


def test_convolutions_are_the_plain_ones_of_torch() -> None:
    """ReLU then pooling, as the paper has it, whatever order is quicker; any depth."""
    spec = Convolutions(image=(16, 12), channels=2, layers=2, middle=4, position="none")
    assert spec.grid == Grid(4, 3)
    module, picture = build(spec), torch.randn(3, 2, 16, 12)
    x = picture
    for layer in module.layers:
        x = F.max_pool2d(F.relu(F.conv2d(x, layer.convolution.weight, padding=1)), 3, 2, 1)
    torch.testing.assert_close(read(module, picture), x.flatten(2).mT)


def test_the_sides_are_what_the_layers_leave() -> None:
    for settings in (
        {"layers": 1, "kernel": 7, "stride": 2},
        {"layers": 3, "middle": (8, 6), "pools": 1},
        {"layers": 2, "kernel": 2, "pool": 2, "residuals": 1, "groups": 2},
        {"layers": 2, "pool": 0, "stride": 2, "first": True},
        {"layers": 2, "kernel": 4, "middle": 16, "groups": 4, "residuals": 2},
        {"layers": 2, "middle": 4, "residuals": (0, 1)},
    ):
        spec = Convolutions(image=(19, 30), **settings)
        found = read(build(spec), torch.randn(2, 3, 19, 30))
        assert found.shape == (2, spec.limit, WIDTH), settings


def test_layers_that_do_not_suit_are_refused() -> None:
    with pytest.raises(SpecError, match="3 layers have 2 between them"):
        Convolutions(layers=3, middle=(4,))
    with pytest.raises(SpecError, match="2 numbers, and there are 3 layers"):
        Convolutions(layers=3, residuals=(0, 1))
    with pytest.raises(SpecError, match="groups"):
        Convolutions(groups=3).build(WIDTH)


def test_a_map_alone_is_a_model() -> None:
    """A stack of depth 0: what a caption looks at."""
    stack = {
        "width": WIDTH,
        "depth": 0,
        "embedding": {
            "kind": "convolutional",
            "image": 16,
            "layers": 2,
            "groups": 2,
            "residuals": 1,
            "position": "none",
        },
        "blocks": [{"ffn": "feedforward"}],
    }
    model = ModelSpec.parse({"encoder": stack, "init": "normal"}).build()
    memory = model.encode(torch.randn(2, 3, 16, 16))
    assert memory is not None and memory.states.shape == (2, 16, WIDTH)
    memory.states.sum().backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())


@pytest.mark.parametrize(
    "settings",
    [
        {"layers": 2, "stride": 2, "pool": 0},
        {"layers": 2, "pool": 3},
        {"layers": 1, "kernel": 5, "stride": 2, "pool": 3},
        {"layers": 2, "residuals": 1, "stride": 2, "pool": 0},
    ],
    ids=str,
)
def test_a_place_stands_in_the_middle_of_what_it_sees(settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    spec = Convolutions(image=40, channels=1, middle=4, **settings)
    model = build(spec).double()
    places = spec.sides[0]
    place, seen = places // 2, set[int]()
    for _ in range(20):  # pooling lets through what is largest, each time elsewhere
        pixels = torch.randn(1, 1, 40, 40, dtype=torch.float64, requires_grad=True)
        model.read(pixels)[0, place * places + place].square().sum().backward()
        assert pixels.grad is not None
        seen |= set(pixels.grad.abs().sum((0, 1, 3)).nonzero().flatten().tolist())
    middle = (min(seen) + max(seen) + 1) / 2  # from the upper edge
    edges = spec.grid.find_edges(places, 40)
    assert middle == pytest.approx((edges[place] + edges[place + 1]) / 2)
    assert spec.grid.find_place(middle / 40, places) == place


def test_kernels_may_differ_by_layer_and_norms_may_stand_behind_the_pooling() -> None:
    more: dict[str, Any] = {"image": 16, "layers": 2, "middle": 4, "groups": 2, "position": "none"}
    spec = Convolutions(kernel=(3, 5), normed="behind", **more)
    assert spec.sides == Convolutions(**more).sides
    module, x = build(spec), torch.randn(2, 3, 16, 16)
    expected = x
    for layer, kernel in zip(module.layers, (3, 5), strict=True):
        y = F.conv2d(expected, layer.convolution.weight, padding=kernel // 2)
        expected = layer.norm(F.max_pool2d(y, 3, 2, 1)).relu()
    torch.testing.assert_close(read(module, x), expected.flatten(2).mT)
    with pytest.raises(SpecError, match="kernel: 2 numbers, and there are 3 layers"):
        Convolutions(layers=3, kernel=(3, 5))
