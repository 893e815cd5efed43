"""Positions. Beside the words, added or concatenated: sinusoids, or learned vectors. Inside attention: rotations, or
biases on scores.

A position inside attention answers two questions: how a query or key turns (`rotate`), and what is added to a score
(`bias`). Most answer only one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Annotated, ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.core.dense import Lookup
from regard.core.mixer import Part
from regard.core.registry import Kinds
from regard.core.role import AbsoluteSpec, RelativeSpec
from regard.core.spec import Positive, Size, Spec
from regard.core.tape import NotWritable, Tape
from regard.core.view import View
from regard.errors import InputError, SpecError

USUAL = 1024  # learned positions, where nobody says how many


class Sinusoidal(AbsoluteSpec):
    """Sines and cosines of 10000^(-2i/width) * position, as in the 2017 paper."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    base: Positive = 10000.0
    """The base of the wavelengths."""
    halves: bool = False
    """All sines come first and then all cosines, instead of by turns."""

    def build(self, width: int) -> nn.Module:
        width, name = (width, "width") if self.size is None else (self.size, "position.size")
        if width % 2:
            raise SpecError(f"position: sinusoids come in pairs, and {name} {width} is odd", f"{name}={width + 1}")
        return SinusoidalPositions(width, self.base, self.halves)


class SinusoidalPositions(nn.Module):
    """PE(position, 2i) = sin, PE(position, 2i + 1) = cos of the same angle."""

    def __init__(self, width: int, base: float, halves: bool) -> None:
        super().__init__()
        self.width, self.base = width, base
        self.halves = halves
        self.kept: Tensor | None = None  # of the first positions, for who writes token by token

    def forward(self, view: View) -> Tensor:
        mask = view.mask
        if mask.time > 1 or not mask.uniform or view.scattered is not None or torch.compiler.is_compiling():
            return self.compute(view.places)
        assert isinstance(mask.past, int)
        kept = self.kept
        if kept is None or kept.shape[1] <= mask.past or kept.device != torch.device(view.device or "cpu"):
            count = max(USUAL, 2 * mask.past)
            kept = self.kept = self.compute(torch.arange(count, device=view.device)[None])
        return kept.narrow(1, mask.past, 1)

    def compute(self, places: Tensor) -> Tensor:
        """(1 or rows, time, width)"""
        even = torch.arange(0, self.width, 2, device=places.device, dtype=torch.float32)
        angles = places[..., None] * torch.exp(even * (-math.log(self.base) / self.width))
        waves = torch.stack((angles.sin(), angles.cos()), -2 if self.halves else -1)
        return waves.flatten(-2)


class Learned(AbsoluteSpec):
    """One learned vector for each position up to `context`."""

    kind: Literal["learned"] = "learned"
    context: Size | None = None
    """There are vectors for this many positions; unless given, for the family's context, or 1024."""

    @property
    def limit(self) -> int:
        return self.context or USUAL

    def build(self, width: int) -> nn.Module:
        return LearnedPositions(self.limit, self.size or width)


class LearnedPositions(nn.Module):
    """A table of positions; looking past its end is an error, never a wrap."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.table = Lookup(context, width)

    def forward(self, view: View) -> Tensor:
        context = self.table.num_embeddings
        total = view.mask.total if view.scattered is None else int(view.places.max()) + 1
        if total > context:
            raise InputError(
                f"{total} positions, and the model has learned vectors for {context}",
                "shorten the input, or use a model with a longer context",
            )
        return self.table(view.places.clamp(max=context - 1))  # a pad after the last place looks anywhere


class Position(Part):
    """Positions inside attention; this one does nothing."""

    key: Hashable = None  # layers with equal keys share what they compute in a call

    def rotate(self, x: Tensor, view: View) -> Tensor:
        """Turn queries or keys of the chunk: (batch, heads, time, size)."""
        return x

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """What to add to the scores, from positions (1 or rows, queries) and (1 or rows, keys).

        It is a matter of their distance alone, so that blocks of a long sequence can share it.
        """
        return None

    def write(self, tape: Tape, x: int) -> int:
        """`rotate`, for a tape; who biases scores can't be written down."""
        if type(self) is not Position:
            raise NotWritable(type(self).__name__)
        return x


class ScalingSpec(Spec):
    """How rotations are slowed to reach past the context that they were trained on."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = ".scaling"
    meanings: ClassVar[Mapping[str, str]] = {
        "factor": "The context becomes this many times as long.",
        "context": "The model was trained on this many positions.",
    }
    drifts: ClassVar[bool] = False  # True: the angles of all positions depend on how many there are

    def frequencies(self, size: int, base: float, length: int) -> Tensor:
        raise NotImplementedError

    @property
    def gain(self) -> float:
        """What queries and keys are multiplied by."""
        return 1.0


class LinearScaling(ScalingSpec):
    """Every position divided by `factor` (Chen et al. 2023)."""

    kind: Literal["linear"] = "linear"
    factor: Positive

    def frequencies(self, size: int, base: float, length: int) -> Tensor:
        return frequencies(size, base) / self.factor


class DynamicScaling(ScalingSpec):
    """The base grows with the length once it passes `context` ("dynamic NTK").

    Past the context the angles of all positions depend on the length, so a longer input changes earlier outputs too.
    """

    kind: Literal["dynamic"] = "dynamic"
    drifts: ClassVar[bool] = True
    factor: Positive
    context: Size

    def frequencies(self, size: int, base: float, length: int) -> Tensor:
        stretch = self.factor * max(length, self.context) / self.context - (self.factor - 1)
        return frequencies(size, base * stretch ** (size / (size - 2)))


class YarnScaling(ScalingSpec):
    """Slow rotations are stretched, fast ones kept, with a ramp between (Peng et al. 2023).

    `mscale` and `mscale_all` are DeepSeek's; without them the gain is the paper's 0.1 ln(factor) + 1.
    """

    kind: Literal["yarn"] = "yarn"
    factor: Positive
    context: Size
    fast: Positive = 32.0
    """Waves that turn at least this often within the context are kept."""
    slow: Positive = 1.0
    """Waves that turn at most this often within the context are stretched."""
    attention: Positive | None = None
    """Queries and keys are multiplied by this; unless given, by 0.1 ln(factor) + 1."""
    mscale: float | None = None
    """DeepSeek's own factor of that gain."""
    mscale_all: float | None = None
    """DeepSeek's own divisor of that gain."""

    def frequencies(self, size: int, base: float, length: int) -> Tensor:
        def channel(turns: float) -> float:
            return size * math.log(self.context / (turns * 2 * math.pi)) / (2 * math.log(base))

        low = max(math.floor(channel(self.fast)), 0)
        high = min(math.ceil(channel(self.slow)), size - 1)
        ramp = (torch.arange(size // 2, dtype=torch.float32) - low) / max(high - low, 0.001)
        keep = 1 - ramp.clamp(0, 1)
        plain = frequencies(size, base)
        return plain / self.factor * (1 - keep) + plain * keep

    @property
    def gain(self) -> float:
        if self.attention is not None:
            return self.attention
        if self.mscale and self.mscale_all:
            return self.temper(self.mscale) / self.temper(self.mscale_all)
        return self.temper(1.0)

    def temper(self, scale: float) -> float:
        return 0.1 * scale * math.log(self.factor) + 1.0 if self.factor > 1 else 1.0


class Llama3Scaling(ScalingSpec):
    """Long waves stretched by `factor`, short ones kept, a smooth step between (Llama 3.1)."""

    kind: Literal["llama3"] = "llama3"
    factor: Positive = 8.0
    context: Size = 8192
    low: Positive = 1.0
    """Waves that turn at most this often within the context are stretched."""
    high: Positive = 4.0
    """Waves that turn at least this often within the context are kept."""

    def frequencies(self, size: int, base: float, length: int) -> Tensor:
        plain = frequencies(size, base)
        waves = self.context * plain / (2 * math.pi)  # turns within the context
        smooth = ((waves - self.low) / (self.high - self.low)).clamp(0, 1)
        return plain * (smooth + (1 - smooth) / self.factor)


def frequencies(size: int, base: float) -> Tensor:
    """base^(-2i/size): (size / 2,), in radians a position."""
    return base ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)


class Rotary(RelativeSpec):
    """Rotate pairs of channels, i and i + size/2, by an angle that grows with position (Su et al. 2021)."""

    kind: Literal["rotary"] = "rotary"
    base: Annotated[float, Field(gt=1, allow_inf_nan=False)] = 10000.0
    """The base of the angles: the larger, the slower the last channels turn."""
    scaling: ScalingSpec | None = None
    """Rotations are slowed in this way to reach past the context of training."""

    def build(self, heads: int, size: int) -> Position:
        if size % 2:
            raise SpecError(f"position: rotations come in pairs, and the head size {size} is odd")
        if self.scaling is not None and size < 4:
            raise SpecError(f"position: scaling needs more than one pair of channels, and the head size is {size}")
        return RotaryPositions(self, size)


class RotaryPositions(Position):
    """Angles are computed once a call and shared by all layers."""

    def __init__(self, spec: Rotary, size: int) -> None:
        super().__init__()
        self.spec, self.size = spec, size
        self.key = (spec, size)
        self.drifts = spec.scaling is not None and spec.scaling.drifts

    def rotate(self, x: Tensor, view: View) -> Tensor:
        cos, sin = (angle.to(x.dtype) for angle in view.once(self.key, lambda: self.angles(view)))
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

    def write(self, tape: Tape, x: int) -> int:
        if self.drifts or type(self) is not RotaryPositions:
            raise NotWritable(type(self).__name__)
        return tape.turn(self.key, lambda view: torch.cat(self.angles(view), -1), self.size, x)

    def angles(self, view: View) -> tuple[Tensor, Tensor]:
        """Cosines and sines: (1 or rows, 1, time, size / 2)."""
        scaling = self.spec.scaling
        if scaling is None:
            rates, gain = frequencies(self.size, self.spec.base), 1.0
        else:
            rates, gain = scaling.frequencies(self.size, self.spec.base, view.mask.total), scaling.gain
        angles = view.places[:, None, :, None] * rates.to(view.device)
        return angles.cos() * gain, angles.sin() * gain


class Alibi(RelativeSpec):
    """A penalty on each score that grows with distance, at a slope of its own for every head (Press et al. 2022)."""

    kind: Literal["alibi"] = "alibi"

    def build(self, heads: int, size: int) -> Position:
        return AlibiBias(heads)


class AlibiBias(Position):
    """-slope * distance; slopes are powers of 2^(-8 / heads), interleaved where heads isn't a power of two."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        whole = 2 ** math.floor(math.log2(heads))
        powers = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
        between = [2 ** (-4 * (2 * i + 1) / whole) for i in range(heads - whole)]
        self.slopes = powers + between
        self.key = ("alibi", heads)

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        distance = (queries[:, None, :, None] - keys[:, None, None, :]).abs()
        return -distance * torch.tensor(self.slopes, device=queries.device)[:, None, None]


class Bucketed(RelativeSpec):
    """A learned bias for each bucket of distances, finer near zero (T5, Raffel et al. 2020)."""

    kind: Literal["bucketed"] = "bucketed"
    buckets: Size = 32
    """Distances are divided into this many buckets, each with a bias of its own."""
    farthest: Size = 128
    """Distances from here on share the last bucket."""
    both: bool = False
    """Keys after the query have buckets of their own."""
    heads: Size | None = None
    """A bias that a whole stack shares serves this many heads."""

    @model_validator(mode="after")
    def check(self) -> Self:
        exact = self.buckets // (4 if self.both else 2)
        if not 1 <= exact < self.farthest:
            raise ValueError(f"buckets: {self.buckets} are too few, or too many for distances up to {self.farthest}")
        return self

    @property
    def shared_heads(self) -> int | None:
        return self.heads

    def build(self, heads: int, size: int) -> Position:
        return BucketedBias(self, heads)


class BucketedBias(Position):
    """A table (buckets, heads), looked up by the distance from query to key."""

    undecayed = ("table.weight",)  # a bias, though it is kept as a table

    def __init__(self, spec: Bucketed, heads: int) -> None:
        super().__init__()
        self.spec = spec
        self.table = Lookup(spec.buckets, heads)
        self.key = id(self)

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        behind = queries[:, :, None] - keys[:, None, :]  # (1 or rows, queries, keys)
        return self.table(self.bucket(behind)).permute(0, 3, 1, 2)

    def bucket(self, behind: Tensor) -> Tensor:
        """Exact up to half of the buckets, then logarithmic to `farthest`, then one for all the rest."""
        buckets = self.spec.buckets
        offset = torch.zeros_like(behind)
        if self.spec.both:
            buckets //= 2
            offset = (behind < 0) * buckets
            behind = behind.abs()
        behind = behind.clamp(min=0)
        exact = buckets // 2
        share = (behind.clamp(min=1) / exact).log() / math.log(self.spec.farthest / exact)
        far = (exact + (share * (buckets - exact)).long()).clamp(max=buckets - 1)
        return offset + torch.where(behind < exact, behind, far)
