"""Packed weights: models that are used and no longer trained, in fewer bits than they were learned in.

What is packed are the matrices (`Dense`), the tables of vectors (`Lookup`) and the matrices of large recurrent cells;
norms, biases and small matrices stay as they are, and what a model remembers is in its own type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.dense import Dense, Lookup
from regard.core.mixer import Part
from regard.core.product import PRODUCTS, TABLES, Precision, Product, multiply, straighten
from regard.errors import CheckpointError, SpecError

SMALL = 2**14  # a matrix with fewer numbers isn't packed: it saves nothing, and often makes a choice
# nor is a cell with fewer in a recurrent matrix: what torch does in one call takes several here, which is as much
LARGE = 2**20


class PackedDense(nn.Module):
    """What `Dense` does, with packed weights."""

    def __init__(self, dense: Dense, product: type[Product]) -> None:
        super().__init__()
        self.in_features, self.out_features = dense.in_features, dense.out_features
        self.product, self.bias = product(dense.weight.detach()), dense.bias

    def forward(self, x: Tensor) -> Tensor:
        return multiply(self.product, x, self.bias)

    def score(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        return multiply(self.product, x, bias)

    def score_in_single(self, x: Tensor) -> Tensor:
        return F.linear(x.float(), self.matrix())

    def matrix(self) -> Tensor:
        return self.product.unpack()

    def unpack(self) -> Dense:
        """The same with whole weights."""
        whole = Dense(self.in_features, self.out_features, bias=False, device="meta")
        whole.weight = nn.Parameter(self.matrix(), requires_grad=False)
        whole.bias = self.bias
        return whole


class PackedLookup(nn.Module):
    """What `Lookup` does, with packed vectors."""

    def __init__(self, table: Lookup, product: type[Product]) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = table.num_embeddings, table.embedding_dim
        self.product = product(table.weight.detach())

    def forward(self, numbers: Tensor) -> Tensor:
        return self.product.unpack(numbers)

    def score(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        return multiply(self.product, x, bias)

    def matrix(self) -> Tensor:
        return self.product.unpack()

    def unpack(self) -> Lookup:
        """The same with whole vectors."""
        whole = Lookup(self.num_embeddings, self.embedding_dim, device="meta")
        whole.weight = nn.Parameter(self.matrix(), requires_grad=False)
        return whole


class PackedGates(nn.Module):
    """The matrices of torch's recurrent layers, packed, for a cell that steps with them: `ih_l0` multiplies what the
    first layer reads, `hh_l0` its last hidden vector; `_reverse`: of the direction from the end.
    """

    def __init__(self, layers: nn.RNNBase, product: type[Product]) -> None:
        super().__init__()
        self.mode, self.size, self.both = layers.mode, layers.hidden_size, layers.bidirectional
        for name, weight in list_gates(layers):
            dense = Dense(weight.shape[1], weight.shape[0], device="meta")
            dense.weight, dense.bias = weight, getattr(layers, f"bias_{name}")
            self.add_module(name, PackedDense(dense, product))

    def unpack(self) -> nn.RNNBase:
        """The same with whole weights."""
        parts = {name: part for name, part in self.named_children() if isinstance(part, PackedDense)}
        sizes = parts["ih_l0"].in_features, self.size, len(parts) // 2 // (1 + self.both)
        whole: nn.RNNBase = KINDS[self.mode](*sizes, batch_first=True, bidirectional=self.both, device="meta")
        for name, part in parts.items():
            dense = part.unpack()
            setattr(whole, f"weight_{name}", dense.weight)
            setattr(whole, f"bias_{name}", dense.bias)
        return whole.eval()


# torch's recurrent layers by the mode that they tell
KINDS: dict[str, Callable[..., nn.RNNBase]] = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "RNN_TANH": nn.RNN,
    "RNN_RELU": partial(nn.RNN, nonlinearity="relu"),
}
Packable = Dense | Lookup | nn.RNNBase
Packed = PackedDense | PackedLookup | PackedGates


def list_gates(layers: nn.RNNBase) -> list[tuple[str, nn.Parameter]]:
    """The matrices of recurrent layers: `ih_l0`, `hh_l0`, …"""
    named = layers.named_parameters()
    return [(name.removeprefix("weight_"), weight) for name, weight in named if name.startswith("weight_")]


@dataclass(frozen=True)
class PackedShare:
    """What became of a model's weights."""

    precision: Precision
    packed: int  # numbers in fewer bits
    whole: int  # numbers that stayed as they were

    @property
    def share(self) -> float:
        return self.packed / max(1, self.packed + self.whole)


def count_weights(model: nn.Module) -> int:
    """The numbers of a model, each counted once however often it is used, and however it is packed."""
    found = sum(weight.numel() for weight in model.parameters())
    for module in model.modules():
        own = sum(buffer.numel() for buffer in module.buffers(recurse=False))
        found += module.count if isinstance(module, Product) else own
    return found


def list_packable(model: nn.Module) -> list[Packable]:
    """The matrices, tables and recurrent layers that would be packed, each once."""
    found = list[Packable]()
    for module in model.modules():
        if isinstance(module, Dense | Lookup) and module.weight.numel() >= SMALL and not module.exact:
            found.append(module)
        if isinstance(module, Part):
            found += [each for each in module.layers_to_pack if dict(list_gates(each))["hh_l0"].numel() >= LARGE]
    return found


def list_matrices(model: nn.Module) -> list[Tensor]:
    """All matrices of what would be packed."""
    return [matrix for part in list_packable(model) for matrix in list_weights(part)]


def list_multiplied(model: nn.Module) -> list[Tensor]:
    """Those of them that rows are multiplied by: all but the tables that are only looked up, which nobody else holds.

    A table that a head scores by is lent to it, and so is one that a second embedding looks up: that one counts too.
    """
    lent = {id(part) for module in model.modules() for part in vars(module).values() if isinstance(part, Lookup)}
    parts = [part for part in list_packable(model) if not isinstance(part, Lookup) or id(part) in lent]
    return [matrix for part in parts for matrix in list_weights(part)]


def list_weights(part: Packable) -> list[Tensor]:
    """The matrices of one part."""
    return [each for _, each in list_gates(part)] if isinstance(part, nn.RNNBase) else [part.weight]


def pack_model(model: nn.Module, precision: Precision) -> PackedShare:
    """Pack the matrices and tables of a model where they stand; from then on it can be used, and not be trained.

    Who shares a matrix goes on sharing it: a head that is tied to the embedding has the same table.
    """
    total = sum(weight.numel() for weight in model.parameters())
    if precision == "fp32":
        return PackedShare(precision, 0, total)
    device = next(model.parameters()).device
    if device.type != "cpu":
        raise SpecError(f"precision {precision}: weights are packed for CPUs, and this model is on {device}", "fp32")
    saved = sum(matrix.numel() for matrix in list_matrices(model))
    exchange(model, {module: pack_part(module, precision) for module in list_packable(model)})
    for weight in (*model.parameters(), *list_whole_buffers(model)):
        weight.requires_grad_(False)
        # what is multiplied comes in single precision, so all else must be in it
        weight.data = straighten(weight.data.float() if weight.is_floating_point() else weight.data)
    model.eval()  # what is new in it would have dropout
    return PackedShare(precision, saved, total - saved)


def list_whole_buffers(model: nn.Module) -> list[Tensor]:
    """The buffers of a packed model that aren't its packed weights."""
    parts = [module for module in model.modules() if not isinstance(module, Product)]
    return [buffer for part in parts for buffer in part.buffers(recurse=False)]


def pack_part(part: Packable, precision: Precision, alike: bool = False) -> Packed:
    """A matrix, a table or recurrent layers, packed; `alike`: what scores words as all else, as in older files."""
    if isinstance(part, nn.RNNBase):
        return PackedGates(part, PRODUCTS[precision])
    product = TABLES[precision] if part.scores and not alike else PRODUCTS[precision]
    return PackedDense(part, product) if isinstance(part, Dense) else PackedLookup(part, product)


def unpack_model(model: nn.Module) -> None:
    """Turn packed weights into whole ones where they stand: the numbers that they count as, not those from before."""
    inside = {part for module in model.modules() if isinstance(module, PackedGates) for part in module.children()}
    found = [module for module in model.modules() if isinstance(module, Packed) and module not in inside]
    exchange(model, {module: module.unpack() for module in found})


def exchange(model: nn.Module, others: Mapping[nn.Module, nn.Module]) -> None:
    """Put other modules into the place of some, for all who hold them."""
    for holder in list(model.modules()):
        # a table that is looked up and not owned stands among the plain attributes
        for place in (holder._modules, holder.__dict__):
            for name, part in list(place.items()):
                if isinstance(part, nn.Module) and part in others:
                    place[name] = others[part]


def insist_on_whole(model: nn.Module, noun: str, done: str) -> None:
    """Refuse packed weights where only whole ones will do; `done`: what was to be done with them."""
    precision = find_precision(model)
    if precision != "fp32":
        raise CheckpointError(
            f"{noun}: its weights are {precision}, rounded for use, and can't be {done}",
            "the run that it was made from",
        )


def find_precision(model: nn.Module) -> Precision:
    """What a model's weights are packed to."""
    kinds = {type(module) for module in model.modules() if isinstance(module, Product)}
    known = [*PRODUCTS.items(), *TABLES.items()]
    return next((name for name, product in known if product in kinds), "fp32")
