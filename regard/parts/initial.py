"""How weights start. A scheme fills matrices, biases and gains; a part with needs of its own then sets its own."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from regard.core.role import InitSpec
from regard.core.spec import Positive

WRITERS = ("output", "down")  # the matrices that write to the residual stream


class Scheme(InitSpec):
    """Biases start at 0 and gains at 1; what happens to a matrix is the scheme's own."""

    def fill(self, model: nn.Module, sublayers: int) -> None:
        for name, weight in model.named_parameters():
            if weight.dim() >= 2:
                self.matrix(name, weight, sublayers)
            else:
                nn.init.constant_(weight, 0.0 if name.endswith("bias") else 1.0)

    def matrix(self, name: str, weight: Tensor, sublayers: int) -> None:
        raise NotImplementedError


def is_table(name: str) -> bool:
    return name.endswith(("tokens.weight", "table.weight", "segments.weight"))


class Normal(Scheme):
    """A normal distribution; with `residual`, 1/√N of it for the N matrices that write to the stream (GPT-2)."""

    kind: Literal["normal"] = "normal"
    std: Positive = 0.02
    """The standard deviation."""
    residual: bool = False
    """Matrices that write to the stream start 1/√N times as large, N being how many there are (GPT-2)."""
    truncated: bool = False
    """Numbers beyond two standard deviations are drawn again."""

    def matrix(self, name: str, weight: Tensor, sublayers: int) -> None:
        writes = any(f".{writer}" in name for writer in WRITERS)
        std = self.std * sublayers**-0.5 if self.residual and writes else self.std
        if self.truncated:
            nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)
        else:
            nn.init.normal_(weight, std=std)


class Xavier(Scheme):
    """Uniform within √(6 / (in + out)) (Glorot & Bengio 2010); token tables normal with variance 1/width."""

    kind: Literal["xavier"] = "xavier"

    def matrix(self, name: str, weight: Tensor, sublayers: int) -> None:
        if is_table(name):
            nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)
        else:
            bound = (6 / (weight.shape[-1] + weight.shape[-2])) ** 0.5  # of one expert, where they are stacked
            nn.init.uniform_(weight, -bound, bound)
