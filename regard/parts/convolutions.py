"""A convolutional tokenizer: a picture through convolutions, ReLU and max-pooling, and what is left of it is a sequence
(CCT, Hassani et al. 2021). Alone, in a stack without blocks, it is a convolutional map, such as captions look at.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Self

import torch
import torch.nn.functional as F
from pydantic import model_validator
from torch import Tensor, nn

from regard.core.dense import Lookup
from regard.core.mixer import Part
from regard.core.spec import Count, Size, divides
from regard.parts.groupnorm import GroupNorm
from regard.parts.picture import PictureEmbedding, Pictures

HALF = 2  # pooling halves the sides


class Convolutions(Pictures):
    """Layers of convolution, ReLU and max-pooling; with groups, normalised; with residuals, a small ResNet."""

    kind: Literal["convolutional"] = "convolutional"
    first: bool = False
    layers: Size = 1
    """There are this many layers, each a convolution, a ReLU and a pooling that halves the sides."""
    kernel: Size | tuple[Size, ...] = 3
    """A convolution sees squares with sides of this many pixels; or one number for each layer."""
    stride: Size = 1
    """A convolution moves on by this many pixels."""
    middle: Size | tuple[Size, ...] = 64
    """All layers but the last, which has the model's width, have this many channels; or one number for each of them."""
    pool: Count = 3
    """Pooling takes the largest number of squares with sides of this many; at 0 there is no pooling."""
    pools: Count | None = None
    """Only so many layers pool, the last ones; unless given, all."""
    groups: Count = 0
    """Channels are normalised in this many groups before each ReLU (Wu & He 2018); at 0 they aren't."""
    normed: Literal["before", "behind"] = "before"
    """Channels are normalised before the pooling, or behind it, at a quarter of the cost."""
    residuals: Count | tuple[Count, ...] = 0
    """Behind each layer come this many pairs of convolutions whose input is added to their output (He et al. 2016); or
    one number for each layer."""

    @property
    def kernels(self) -> tuple[int, ...]:
        """The kernel of each layer."""
        return (self.kernel,) * self.layers if isinstance(self.kernel, int) else self.kernel

    @property
    def between(self) -> tuple[int, ...]:
        """The channels of all layers but the last."""
        return (self.middle,) * (self.layers - 1) if isinstance(self.middle, int) else self.middle

    @property
    def pairs(self) -> tuple[int, ...]:
        """The residual pairs behind each layer."""
        return (self.residuals,) * self.layers if isinstance(self.residuals, int) else self.residuals

    def is_pooled(self, layer: int) -> bool:
        return bool(self.pool) and layer >= self.layers - (self.layers if self.pools is None else self.pools)

    @property
    def sides(self) -> tuple[int, int]:
        return self.measure(self.height), self.measure(self.width)

    def measure(self, side: int) -> int:
        """What the layers leave of a side; edges are padded, so that is one place at least."""
        for layer, kernel in enumerate(self.kernels):
            side = (side + 2 * (kernel // 2) - kernel) // self.stride + 1
            if self.is_pooled(layer):
                side = (side + 2 * (self.pool // 2) - self.pool) // HALF + 1
        return side

    @property
    def offset(self) -> float:
        middle, step = 0.0, 1  # of the first place, in pixels from that of the first pixel, and to the next place
        for layer, kernel in enumerate(self.kernels):
            middle, step = middle + ((kernel - 1) / 2 - kernel // 2) * step, step * self.stride
            if self.is_pooled(layer):
                middle, step = middle + ((self.pool - 1) / 2 - self.pool // 2) * step, step * HALF
        return (middle + 0.5) / step - 0.5

    @model_validator(mode="after")
    def check(self) -> Self:
        if not isinstance(self.middle, int) and len(self.middle) != self.layers - 1:
            raise ValueError(
                f"middle: {len(self.middle)} numbers of channels, and {self.layers} layers have {self.layers - 1} "
                "between them"
            )
        for name, numbers in (("residuals", self.pairs), ("kernel", self.kernels)):
            if len(numbers) != self.layers:
                raise ValueError(f"{name}: {len(numbers)} numbers, and there are {self.layers} layers")
        return self

    def build(self, width: int, table: Lookup | None = None) -> Part:
        for channels in (*self.between, width) if self.groups else ():
            divides(self.groups, channels, "groups", "channels")
        return ConvolutionalEmbedding(self, width)


class ConvolutionalEmbedding(PictureEmbedding):
    def __init__(self, spec: Convolutions, width: int) -> None:
        super().__init__(spec, width)
        sizes = (spec.channels, *spec.between, width)
        self.layers = nn.ModuleList(
            ConvolutionLayer(spec, inputs, outputs, number) for number, (inputs, outputs) in enumerate(pairwise(sizes))
        )

    def read(self, inputs: Tensor) -> Tensor:
        # places before channels is how the kernels like it on a CPU, and how a sequence wants it in the end
        x = inputs.contiguous(memory_format=torch.channels_last)
        for layer in self.layers:
            x = layer(x)
        return x.flatten(2).mT  # (rows, places, width)


class ConvolutionLayer(Part):
    """pool(relu(norm(convolution))), or relu(norm(pool(convolution))), then residual pairs."""

    def __init__(self, spec: Convolutions, inputs: int, outputs: int, number: int) -> None:
        super().__init__()
        self.pool = spec.pool if spec.is_pooled(number) else 0
        kernel = spec.kernels[number]
        self.convolution = nn.Conv2d(inputs, outputs, kernel, spec.stride, kernel // 2, bias=False)
        self.norm = GroupNorm(spec.groups, outputs) if spec.groups else None
        self.behind = spec.normed == "behind"
        self.residuals = nn.ModuleList(ResidualPair(spec.groups, outputs) for _ in range(spec.pairs[number]))

    def reset(self) -> None:
        nn.init.kaiming_normal_(self.convolution.weight)

    def forward(self, x: Tensor) -> Tensor:
        x = self.convolution(x)
        if self.norm is not None and not self.behind:
            x = self.norm(x)
        if self.pool:
            # the largest number is the same before a ReLU and after it, and what is left is a quarter
            x = F.max_pool2d(x, self.pool, HALF, self.pool // 2)
        x = self.norm(x, bends=True) if self.norm is not None and self.behind else F.relu(x)
        for pair in self.residuals:
            x = pair(x)
        return x


class ResidualPair(Part):
    """relu(x + norm(second(relu(norm(first x))))), which starts as x: the last gain is 0 (Goyal et al. 2017)."""

    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = GroupNorm(groups, channels) if groups else None
        self.second_norm = GroupNorm(groups, channels) if groups else None

    def reset(self) -> None:
        nn.init.kaiming_normal_(self.first.weight)
        nn.init.kaiming_normal_(self.second.weight)
        if self.second_norm is not None:
            nn.init.zeros_(self.second_norm.weight)
        else:
            self.second.weight.mul_(0.1)  # no norm holds the sum in range

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y = self.second(F.relu(y) if self.first_norm is None else self.first_norm(y, bends=True))
        return F.relu(x + (y if self.second_norm is None else self.second_norm(y)))
