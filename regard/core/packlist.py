"""What a file of packed weights holds, told beside them: so that whoever reads it draws the same matrices, and nothing
is taken for what it isn't.

The weights go by the names of the packed model. Where the model has a matrix `NAME.weight`, the file has
`NAME.product.plain`, row by row, and its scales, `NAME.product.scale`; all else is as it was. Which matrices are packed
stands in the list and isn't decided again: another version of this program may draw the line elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor, nn

from regard.core.packed import Packable, PackedDense, PackedLookup, exchange, find_precision, pack_part
from regard.core.product import PRODUCTS, BrainProduct, Precision, Product
from regard.errors import CheckpointError

FORMAT = 2  # 1: with bf16, what scores words was bf16 too
NAME = "packed"  # of the file: packed.json


@dataclass(frozen=True)
class PackingList:
    """Which matrices of a model are packed, and to what."""

    precision: Precision
    matrices: Mapping[str, tuple[int, int]]  # the outputs and the inputs of each, by its name in the model
    version: int = FORMAT  # of the file that says so

    @classmethod
    def find(cls, model: nn.Module) -> PackingList | None:
        """What of a model is packed; None: nothing."""
        parts = {name: part for name, part in model.named_modules() if isinstance(part, PackedDense | PackedLookup)}
        if not parts:
            return None
        shapes = {name: (part.product.outputs, part.product.inputs) for name, part in parts.items()}
        before = any(isinstance(part, PackedLookup) and type(part.product) is BrainProduct for part in parts.values())
        return cls(find_precision(model), shapes, 1 if before else FORMAT)

    def to_fact(self) -> dict[str, Any]:
        matrices = {name: list(shape) for name, shape in self.matrices.items()}
        return {"format_version": self.version, "precision": self.precision, "matrices": matrices}

    @classmethod
    def of_fact(cls, fact: Mapping[str, Any], where: str) -> Self:
        """From what a file says; `where`: the file."""
        version, precision, matrices = (fact.get(key) for key in ("format_version", "precision", "matrices"))
        if type(version) is not int or version < 1:
            raise CheckpointError(f"{where}: damaged, format_version is {version!r:.40}")
        if version > FORMAT:
            raise CheckpointError(f"{where}: format {version} is newer than this program", "upgrade regard")
        chosen = next((name for name in PRODUCTS if name == precision), None)
        if chosen is None:
            raise CheckpointError(f"{where}: precision is {precision!r:.40}, and must be one of {', '.join(PRODUCTS)}")
        if not isinstance(matrices, dict) or not all(map(_is_shape, matrices.values())):
            raise CheckpointError(f"{where}: matrices must be the outputs and inputs of each, by its name")
        return cls(chosen, {name: (shape[0], shape[1]) for name, shape in matrices.items()}, version)

    def draw(self, model: nn.Module, where: str) -> None:
        """Give a model without memory packed matrices without memory, where this says so."""
        parts = dict(model.named_modules())
        others: dict[nn.Module, nn.Module] = {}
        for name in self.matrices:
            part = parts.get(name) or parts.get(name.rpartition(".")[0])  # recurrent layers hold several
            if isinstance(part, Packable) and part not in others:
                others[part] = pack_part(part, self.precision, alike=self.version < 2)
        exchange(model, others)
        drawn = PackingList.find(model)
        own = {} if drawn is None else drawn.matrices
        for name in {**self.matrices, **own}:
            told, there = self.matrices.get(name), own.get(name)
            if there is None:
                raise CheckpointError(f"{where}: {name:.100}: the model has no such matrix")
            if told != there:
                raise CheckpointError(f"{where}: {name}: shape {told}, and the model's is {there}")
        for weight in model.parameters():
            weight.requires_grad_(False)

    def check_types(self, model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
        """Insist that numbers are of the types that they were written in: another would round, or mean others."""
        wanted = {name: weight.dtype for name, weight in model.named_parameters()}
        for path, module in model.named_modules():
            if isinstance(module, Product):
                wanted |= {f"{path}.{name}": buffer.dtype for name, buffer in module.named_buffers()}
        for name, dtype in wanted.items():
            if name in tensors and tensors[name].dtype != dtype:
                raise CheckpointError(f"{where}: {name}: numbers of the type {tensors[name].dtype}, and not {dtype}")


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and [type(size) for size in value] == [int, int]
