"""Products with packed weights: a matrix in fewer bits than it was learned in, and how rows are multiplied by it.

One token at a time, a model is as fast as its weights can be read, so half the bytes is up to twice the speed. No data
is needed to pack: each output channel has a scale of its own, and with 8 bits each row of the input too, so that a
row's answer never depends on its neighbours.

    fp16, bf16   half of the bits; sums are in single precision. With bf16, what scores words is in fp16
    int8         8 bits for weights and for each row that is multiplied; sums are whole numbers, and exact
    int4         4 bits, with a scale and a zero for each 32 weights of a channel; rows are in bf16

The kernels are torch's own (FBGEMM, oneDNN), and pack for the instructions of the machine that they run on; three have
one of ours too, where it could be built: with fp16 and with 8 bits it gives the same numbers sooner, and with bf16
better ones, since torch's rounds what comes out to bf16 as well.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError, SpecError
from regard.kernels.library import Library, describe, load

Precision = Literal["fp32", "fp16", "bf16", "int8", "int4"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
GROUP = 32  # weights that share a scale and a zero, in 4 bits
ALIGNED = 64  # bytes, as torch aligns
EXACT = {1: 63, 2: 127}  # how many levels of a row our kernel multiplies exactly, by its instructions
PANEL = 64  # outputs that our kernel reads side by side
TILE = 16  # torch's kernel for 4 bits wants this many outputs at a time
OUTPUT: tuple[Any, ...] = (None, 1.0, 0, torch.float32, "none", [], "")  # of oneDNN's product: as it is


class Product(nn.Module):
    """A matrix of weights, packed, and how rows are multiplied by it.

    Its buffers are plain: numbers in fewer bits, output by output, and their scales. They are all that a file keeps,
    and the same on every machine. What a kernel reads (`packed`) is made of them when the first row comes.
    """

    bits: ClassVar[int]
    plain: Tensor

    def __init__(self, weight: Tensor) -> None:
        """`weight`: (outputs, inputs). One without memory draws the buffers without memory too, to be filled later."""
        super().__init__()
        self.outputs, self.inputs = weight.shape
        self.count = weight.numel()  # of the weights that it stands for
        for name, tensor in self.quantise(weight).items():
            self.register_buffer(name, straighten(tensor))

    def quantise(self, weight: Tensor) -> dict[str, Tensor]:
        """The buffers, from whole weights."""
        raise NotImplementedError

    @cached_property
    def kernel(self) -> Kernel | None:
        """Ours, where there is one."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        """What is copied: not the kernel, which is a part of this process, and is made again."""
        return {name: value for name, value in vars(self).items() if name != "kernel"}

    def forward(self, x: Tensor) -> Tensor:
        """x Wᵀ: (rows, inputs) to (rows, outputs), in single precision."""
        return self.add(x, None)

    def add(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x Wᵀ + b."""
        if self.kernel is not None:
            return self.kernel.multiply(x, bias)
        found = self.ask_torch(x)
        return found if bias is None else found.add_(bias)

    def ask_torch(self, x: Tensor) -> Tensor:
        """x Wᵀ by torch's kernel."""
        raise NotImplementedError

    def unpack(self, rows: Tensor | None = None) -> Tensor:
        """The numbers that the weights count as, or those of some outputs: (outputs, inputs)."""
        raise NotImplementedError


class HalfProduct(Product):
    """Half precision, read as such and multiplied in single."""

    bits = 16

    def quantise(self, weight: Tensor) -> dict[str, Tensor]:
        largest = torch.finfo(torch.float16).max
        if not weight.is_meta and float(weight.abs().max()) > largest:
            raise SpecError(f"precision fp16: a weight is larger than {largest:.0f}, the largest of them", "bf16")
        return {"plain": weight.half()}

    @cached_property
    def packed(self) -> Any:
        return torch.ops.quantized.linear_prepack_fp16(self.plain.float(), None)

    @cached_property
    def kernel(self) -> Kernel | None:
        library = load()
        return None if library is None else HalfKernel(library, self)

    def ask_torch(self, x: Tensor) -> Tensor:
        found: Tensor = torch.ops.quantized.linear_dynamic_fp16(x.float(), self.packed)
        return found

    def unpack(self, rows: Tensor | None = None) -> Tensor:
        return (self.plain if rows is None else self.plain[rows]).float()


class BrainTable(HalfProduct):
    """What scores words, beside matrices of bf16: in fp16, which has three bits more.

    What is rounded there changes which word is the best, and no norm behind it makes it small. With all in bf16 it
    was this table that changed most of the translations that changed: 42 of 68, of 4,028.
    """


class BrainProduct(Product):
    """bfloat16, for weights; rows are rounded to it where the processor multiplies two of them, and sums never."""

    bits = 16

    def quantise(self, weight: Tensor) -> dict[str, Tensor]:
        return {"plain": weight.bfloat16()}

    @cached_property
    def kernel(self) -> Kernel | None:
        library = load()
        return None if library is None else BrainKernel(library, self)

    def ask_torch(self, x: Tensor) -> Tensor:
        return F.linear(x.bfloat16(), self.plain).float()

    def unpack(self, rows: Tensor | None = None) -> Tensor:
        return (self.plain if rows is None else self.plain[rows]).float()


class ByteProduct(Product):
    """8 bits: w ≈ q · scale for each output, x ≈ p · size for each row, and x Wᵀ ≈ (p qᵀ) · scale · size."""

    bits = 8
    scale: Tensor  # (outputs,)

    def __init__(self, weight: Tensor) -> None:
        super().__init__(weight)
        self.levels = count_levels()
        self.zeros = torch.zeros(self.outputs, dtype=torch.long)

    def quantise(self, weight: Tensor) -> dict[str, Tensor]:
        weight = weight.float()
        scale = weight.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny * 127) / 127
        return {"plain": (weight / scale[:, None]).round().to(torch.int8), "scale": scale}

    @cached_property
    def packed(self) -> Any:
        return torch.ops.onednn.qlinear_prepack(self.plain, None)

    @cached_property
    def kernel(self) -> Kernel | None:
        """Ours, where there is one that makes the same of so many levels."""
        library = load()
        return None if library is None or self.levels > EXACT[library.level] else ByteKernel(library, self)

    def ask_torch(self, x: Tensor) -> Tensor:
        size = x.abs().amax(1, keepdim=True).float().clamp_min_(torch.finfo(torch.float32).tiny * 127).div_(self.levels)
        zero = self.levels + 1
        whole = torch.div(x, size).round_().add_(zero).to(torch.uint8)
        found: Tensor = torch.ops.onednn.qlinear_pointwise(
            whole, 1.0, zero, self.packed, self.scale, self.zeros, *OUTPUT
        )
        return found.mul_(size)

    def unpack(self, rows: Tensor | None = None) -> Tensor:
        plain, scale = (self.plain, self.scale) if rows is None else (self.plain[rows], self.scale[rows])
        return plain.float() * scale[..., None]


class Kernel:
    """Packed weights as one of our own kernels reads them."""

    def __init__(self, library: Library, product: Product) -> None:
        self.functions, self.level = library.functions, library.level
        self.outputs, self.inputs = product.outputs, product.inputs

    def call(self, x: Tensor, bias: int | None, found: Tensor) -> None:
        """Let the kernel write x Wᵀ + b to where it belongs; `bias`: where it stands."""
        raise NotImplementedError

    def multiply(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x Wᵀ + b: (rows, inputs) to (rows, outputs)."""
        # a token of a small model is as fast as what is asked here, so nothing is asked twice
        if x.dtype != torch.float32 or not x.is_contiguous():
            x = x.float().contiguous()
        if bias is not None and (bias.dtype != torch.float32 or not bias.is_contiguous()):
            bias = bias.float().contiguous()
        found = x.new_empty(x.shape[0], self.outputs)
        self.call(x, None if bias is None else bias.data_ptr(), found)
        return found


class ByteKernel(Kernel):
    """Weights of 8 bits."""

    def __init__(self, library: Library, product: ByteProduct) -> None:
        super().__init__(library, product)
        self.levels, self.scale = product.levels, product.scale
        self.packed = torch.empty(self.functions.regard_packed_bytes(self.outputs, self.inputs), dtype=torch.int8)
        self.sums = torch.empty(self.outputs, dtype=torch.int32)
        plain = product.plain.contiguous()
        self.functions.regard_pack(
            plain.data_ptr(), self.outputs, self.inputs, self.packed.data_ptr(), self.sums.data_ptr()
        )

    def call(self, x: Tensor, bias: int | None, found: Tensor) -> None:
        self.functions.regard_multiply(
            *(x.data_ptr(), x.shape[0], self.inputs, self.packed.data_ptr(), self.sums.data_ptr()),
            *(self.scale.data_ptr(), bias, self.outputs, self.levels, found.data_ptr(), self.level),
        )


class HalfKernel(Kernel):
    """Weights of fp16, which become single precision on their way; sums are in the order of the inputs."""

    def __init__(self, library: Library, product: HalfProduct) -> None:
        super().__init__(library, product)
        self.packed = torch.empty(-(-self.outputs // PANEL) * PANEL * self.inputs, dtype=torch.int16)
        plain = product.plain.contiguous()
        self.functions.regard_pack_halves(
            plain.data_ptr(), self.outputs, self.inputs, self.packed.data_ptr(), self.level
        )

    def call(self, x: Tensor, bias: int | None, found: Tensor) -> None:
        self.functions.regard_multiply_halves(
            *(x.data_ptr(), x.shape[0], self.inputs, self.packed.data_ptr(), bias),
            *(self.outputs, found.data_ptr(), self.level),
        )


class BrainKernel(Kernel):
    """Weights of bf16; sums are in single precision, in the order of the inputs."""

    def __init__(self, library: Library, product: BrainProduct) -> None:
        super().__init__(library, product)
        self.packed = torch.empty(self.functions.regard_packed_brains(self.outputs, self.inputs), dtype=torch.int16)
        plain = product.plain.contiguous()
        self.functions.regard_pack_brains(
            plain.data_ptr(), self.outputs, self.inputs, self.packed.data_ptr(), self.level
        )

    def call(self, x: Tensor, bias: int | None, found: Tensor) -> None:
        self.functions.regard_multiply_brains(
            *(x.data_ptr(), x.shape[0], self.inputs, self.packed.data_ptr(), bias),
            *(self.outputs, found.data_ptr(), self.level),
        )


class NibbleProduct(Product):
    """4 bits: w ≈ (q - 8) · scale + zero, for each group of weights of an output."""

    bits = 4
    scale: Tensor  # (groups, outputs, 2): the scale and the zero, as the kernel has them

    def quantise(self, weight: Tensor) -> dict[str, Tensor]:
        spare = -self.outputs % TILE, -self.inputs % GROUP
        groups = F.pad(weight.float(), (0, spare[1], 0, spare[0])).unflatten(1, (-1, GROUP))
        low, high = groups.aminmax(dim=-1)  # (outputs, groups)
        scale = ((high - low) / 15).clamp_min(1e-12)
        # what is multiplied is bf16, so the weights are rounded to what that can say
        scale, zero = scale.bfloat16(), (low + 8 * scale).bfloat16()
        codes = ((groups - zero[..., None]) / scale[..., None] + 8).round().clamp_(0, 15).int().flatten(1)
        plain = (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8)  # two in a byte
        return {"plain": plain, "scale": torch.stack((scale.T, zero.T), -1)}

    @cached_property
    def packed(self) -> Any:
        return torch.ops.aten._convert_weight_to_int4pack_for_cpu(spread_nibbles(self.plain).int(), 1)

    def ask_torch(self, x: Tensor) -> Tensor:
        rows = F.pad(x.bfloat16(), (0, -self.inputs % GROUP))
        found: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.packed, GROUP, self.scale)
        return found[:, : self.outputs].float()

    def unpack(self, rows: Tensor | None = None) -> Tensor:
        plain = self.plain[: self.outputs] if rows is None else self.plain[rows]
        scale = self.scale.transpose(0, 1)[: self.outputs] if rows is None else self.scale.transpose(0, 1)[rows]
        groups = spread_nibbles(plain).unflatten(-1, (-1, GROUP)).float()
        found = (groups - 8) * scale[..., 0, None].float() + scale[..., 1, None].float()
        return found.flatten(-2)[..., : self.inputs]


def straighten(tensor: Tensor) -> Tensor:
    """The same numbers row by row, from where torch would let them begin.

    A matrix that came transposed is strided, and oneDNN packs other numbers than such a one holds. One that stands in a
    file may begin anywhere, and then the last digits of a product are others.
    """
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % ALIGNED else tensor


def spread_nibbles(plain: Tensor) -> Tensor:
    """Two numbers of 4 bits from each byte: (…, bytes) to (…, inputs)."""
    return torch.stack((plain >> 4, plain & 15), -1).flatten(-2)


PRODUCTS: dict[Precision, type[Product]] = {
    "fp16": HalfProduct,
    "bf16": BrainProduct,
    "int8": ByteProduct,
    "int4": NibbleProduct,
}
# of what scores words, where that is another
TABLES: dict[Precision, type[Product]] = {**PRODUCTS, "bf16": BrainTable}


def count_levels() -> int:
    """How large a whole number may stand for the largest of a row.

    Without the instructions made for it, a processor adds two products of 8 bits in 16, and would cut off what doesn't
    fit: rows have 7 bits there, and where our kernel is told to do without them.
    """
    library = load()
    return 127 if torch.cpu._is_vnni_supported() and (library is None or library.level == 2) else 63


def describe_kernels() -> str:
    """Which instructions our kernel takes here, or why there is none; it is built where that hasn't happened yet."""
    return describe()


def has_brain_floats() -> bool:
    """Whether our kernel multiplies bf16, or the processor. Elsewhere torch emulates it, far slower than fp32."""
    return load() is not None or torch.cpu._is_avx512_bf16_supported()


def multiply(product: Product, x: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b for rows of any number of dimensions, in the type of x."""
    if (
        x.requires_grad and torch.is_grad_enabled()
    ):  # what rounds has no gradient, and autograd would go round it and give a wrong one
        raise InputError("packed weights have no gradients", "precision fp32")
    found = product.add(x.reshape(-1, x.shape[-1]), bias)
    return (found if found.dtype == x.dtype else found.to(x.dtype)).view(*x.shape[:-1], -1)
