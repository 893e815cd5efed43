"""Optimizers: torch's own, with decay where it belongs, and a state that survives as named tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from regard.core.model import Model
from regard.errors import CheckpointError, SpecError
from regard.models import preset, presets
from regard.train.adapt import Lora, freeze
from regard.train.muon import QUINTIC, ROUNDS, make_orthogonal
from regard.train.optimizer import OptimizerSpec, groups, list_undecayed, pack, set_rate, unpack

KINDS = ["adam", "adamw", "muon", "sgd", "adafactor"]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2))


def step(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    optimizer.zero_grad()
    model(torch.randn(5, 4, generator=torch.Generator().manual_seed(seed))).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_is_saved_and_put_back_goes_on_to_the_bit(kind: str) -> None:
    settings: dict[str, Any] = {"kind": kind} | ({"momentum": 0.9} if kind == "sgd" else {})
    spec = OptimizerSpec.parse(settings)
    straight = network()
    optimizer = spec.build(straight)
    for seed in range(6):
        step(straight, optimizer, seed)
    broken = network()
    optimizer = spec.build(broken)
    for seed in range(3):
        step(broken, optimizer, seed)
    state = {name: tensor.clone() for name, tensor in pack(optimizer, broken).items()}
    assert state
    again = spec.build(broken)
    unpack(again, broken, state)
    for seed in range(3, 6):
        step(broken, again, seed)
    for one, other in zip(straight.parameters(), broken.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_every_optimizer_learns(kind: str) -> None:
    model = network()
    optimizer = OptimizerSpec.parse({"kind": kind, "rate": 0.02}).build(model)
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        losses.append(float(loss.detach()))
        optimizer.step()
    assert losses[-1] < 0.5 * losses[0]


def test_matrices_decay_and_vectors_do_not() -> None:
    model = network()
    for kind in KINDS:
        optimizer = OptimizerSpec.parse({"kind": kind, "decay": 0.3}).build(model)
        decays = {id(weight): group["weight_decay"] for group in optimizer.param_groups for weight in group["params"]}
        assert all(decays[id(weight)] == (0.3 if weight.dim() > 1 else 0.0) for weight in model.parameters())
    assert sum(len(group["params"]) for group in groups(model, 0.1)) == len(list(model.parameters()))


KEPT = {  # by a preset's name, or by the first word of it
    "mamba": {"mix.inner.decay", "mix.inner.skip"},
    "hybrid": {"mix.inner.decay", "mix.inner.skip"},
    "ssm": {"mix.inner.step", "mix.inner.decay", "mix.inner.frequency"},
    "ntm": {"mix.inner.blank", "mix.inner.rest"},
    "t5": {"bias.table.weight"},
    "vit": {"embedding.first", "embedding.position"},
    "deit": {"embedding.first", "embedding.second", "embedding.position"},
    "cvt": {"embedding.position"},
    "cct": {"embedding.position"},
    "captioner": {"embedding.position"},
    "show": {"embedding.position"},
    "graph-mamba": {"decay", "skip"},
    "graph-mamba-walks": {"decay", "skip"},
    "pixel-mamba": {"mix.inner.decay", "mix.inner.skip"},
}


@pytest.mark.parametrize("name", sorted(presets()))
def test_only_matrices_decay_and_not_those_that_the_references_exempt(name: str) -> None:
    """Embeddings decay, as in BERT and GPT; vectors never do; of the rest, what each part says."""
    model, kept = preset(name).build("meta"), KEPT.get(name) or KEPT.get(name.partition("-")[0], set())
    weights, names = dict(model.named_parameters()), {id(weight): key for key, weight in model.named_parameters()}
    decaying = {
        names[id(weight)] for group in groups(model, 0.1) if group["weight_decay"] for weight in group["params"]
    }
    spared = set(weights) - decaying
    assert spared == {
        key for key, weight in weights.items() if weight.dim() < 2 or any(key.endswith(f".{own}") for own in kept)
    }
    assert list_undecayed(model) <= spared  # what a part declares is there
    assert all(any(key.endswith(f".{own}") for key in spared) for own in kept)


def test_a_state_of_another_model_is_refused() -> None:
    model = network()
    optimizer = OptimizerSpec.parse("adamw").build(model)
    step(model, optimizer, 0)
    state = pack(optimizer, model)
    with pytest.raises(CheckpointError, match="no weight 'x'"):
        unpack(optimizer, model, {"x/exp_avg": torch.zeros(3)})
    with pytest.raises(CheckpointError, match=r"0.weight/exp_avg has shape \(4, 3\)"):
        unpack(optimizer, model, state | {"0.weight/exp_avg": torch.zeros(4, 3)})


def tiny(depth: int = 3) -> Model:
    torch.manual_seed(0)
    return preset("bert-tiny", depth=depth, width=8, heads=2, vocabulary=20, head={"kind": "tags", "tags": 4}).build()


def factors(model: nn.Module, layerwise: float) -> dict[str, float]:
    """Each weight's share of the rate, by name."""
    names = {id(weight): name for name, weight in model.named_parameters()}
    found = groups(model, 0.1, layerwise)
    return {names[id(weight)]: group["factor"] for group in found for weight in group["params"]}


def learned(model: Model, optimizer: torch.optim.Optimizer, seed: int) -> None:
    optimizer.zero_grad()
    tokens = torch.randint(20, (3, 5), generator=torch.Generator().manual_seed(seed))
    (model(tokens) - 1).square().sum().backward()
    optimizer.step()


def test_the_same_rate_for_all_makes_two_groups_in_the_order_of_names() -> None:
    model = tiny()
    weights = list(model.parameters())
    matrices, vectors = groups(model, 0.3)
    assert list(map(id, matrices["params"])) == [id(weight) for weight in weights if weight.dim() > 1]
    assert list(map(id, vectors["params"])) == [id(weight) for weight in weights if weight.dim() == 1]
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.3, 0.0)
    assert matrices["factor"] == vectors["factor"] == 1.0


def test_each_block_learns_more_slowly_than_the_one_above_it() -> None:
    found = factors(tiny(), 0.5)
    assert len(found) == len(list(tiny().parameters()))
    assert found["head.tags.weight"] == found["head.tags.bias"] == 1
    for number, factor in ((2, 0.5), (1, 0.25), (0, 0.125)):
        assert {share for name, share in found.items() if f".blocks.{number}." in name} == {factor}
    assert {share for name, share in found.items() if ".embedding." in name} == {0.0625}


def test_every_stack_counts_from_its_own_top() -> None:
    spec = preset("t5-small", width=8, heads=2, size=4, hidden=16, depth=3, decoder_depth=2, vocabulary=20)
    found = factors(spec.build(), 0.5)
    expected = {
        "encoder.norm.weight": 1,
        "decoder.norm.weight": 1,
        "encoder.blocks.2.ffn.norm.weight": 0.5,
        "decoder.blocks.1.ffn.norm.weight": 0.5,
        "encoder.blocks.0.ffn.norm.weight": 0.125,
        "decoder.blocks.0.ffn.norm.weight": 0.25,
        "encoder.bias.table.weight": 0.0625,
        "decoder.bias.table.weight": 0.125,
        "decoder.embedding.tokens.weight": 0.125,
    }
    assert {name: found[name] for name in expected} == expected


def test_a_rate_is_set_in_proportion_and_from_the_start() -> None:
    model = tiny(depth=1)
    optimizer = OptimizerSpec.parse({"kind": "sgd", "rate": 0.2, "layerwise": 0.5}).build(model)
    assert [group["lr"] for group in optimizer.param_groups] == [0.2, 0.2, 0.1, 0.1, 0.05, 0.05]
    set_rate(optimizer, 0.4)
    assert [group["lr"] for group in optimizer.param_groups] == [0.4, 0.4, 0.2, 0.2, 0.1, 0.1]
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    learned(model, optimizer, 0)
    for name, weight in model.named_parameters():
        assert weight.grad is not None
        share = 0.1 if ".embedding." in name else 0.2 if ".blocks." in name else 0.4
        assert torch.allclose(weight, before[name] - share * weight.grad, atol=1e-7)


@pytest.mark.parametrize("layerwise", [0, -0.5, 1.5, float("nan")])
def test_a_factor_outside_0_to_1_is_refused(layerwise: float) -> None:
    with pytest.raises(SpecError, match="layerwise"):
        OptimizerSpec.parse({"kind": "adam", "layerwise": layerwise})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", ["frozen", "lora", "layerwise"])
def test_training_of_a_part_goes_on_to_the_bit(kind: str, part: str) -> None:
    settings: dict[str, Any] = {"kind": kind, "layerwise": 0.8 if part == "layerwise" else 1.0}
    spec = OptimizerSpec.parse(settings | ({"momentum": 0.9} if kind == "sgd" else {}))

    def begun() -> Model:
        model = tiny(depth=2).eval()
        if part == "frozen":
            freeze(model, ["encoder.embedding.*", "encoder.blocks.0.*"])
        if part == "lora":
            Lora(rank=2).attach(model)
        return model

    straight, broken = begun(), begun()
    optimizer, first = spec.build(straight), spec.build(broken)
    for seed in range(2):
        learned(straight, optimizer, seed)
        learned(broken, first, seed)
    state = {name: tensor.clone() for name, tensor in pack(first, broken).items()}
    assert {name.rpartition("/")[0] for name in state} == trained(broken)
    again = spec.build(broken)
    unpack(again, broken, state)
    learned(straight, optimizer, 2)
    learned(broken, again, 2)
    for one, other in zip(straight.parameters(), broken.parameters(), strict=True):
        assert torch.equal(one, other)


def trained(model: Model) -> set[str]:
    """What has a gradient, by the names under which a state is saved."""
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    return {name.replace("parametrizations.weight.0", "lora") for name in weights}


def test_a_state_of_a_weight_that_is_frozen_now_is_refused() -> None:
    model = tiny(depth=1)
    optimizer = OptimizerSpec.parse("adamw").build(model)
    learned(model, optimizer, 0)
    state = pack(optimizer, model)
    freeze(model, ["encoder.embedding.tokens.*"])
    with pytest.raises(CheckpointError, match=r"'encoder.embedding.tokens.weight' was trained, and is frozen now"):
        unpack(OptimizerSpec.parse("adamw").build(model), model, state)


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 5, 40), (2, 40, 5), (1, 1, 7)])
def test_a_matrix_is_made_orthogonal_whatever_its_singular_values(shape: tuple[int, int, int]) -> None:
    """All that is at least a hundredth of the largest comes near 1, and the directions stay."""
    generator = torch.Generator().manual_seed(1)
    left, _, right = torch.linalg.svd(torch.randn(shape, generator=generator), full_matrices=False)
    values = torch.logspace(0, -2, left.shape[-1])
    (found,) = make_orthogonal([left * values @ right])
    turned = left.mT @ found @ right.mT
    kept = turned.diagonal(dim1=-2, dim2=-1)
    assert ((kept > 0.5) & (kept < 1.3)).all()
    assert (turned - torch.diag_embed(kept)).abs().max() < 1e-3


def test_the_gathered_rounds_are_newton_and_schulzs() -> None:
    """The same as the rounds one by one on the whole matrix, in double precision."""
    given = torch.randn(1, 12, 50, generator=torch.Generator().manual_seed(2))
    x = (given / given.norm()).double()[0]
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = QUINTIC[0] * x + (QUINTIC[1] * gram + QUINTIC[2] * gram @ gram) @ x
    assert torch.allclose(make_orthogonal([given])[0][0].double(), x, atol=1e-5)


def test_matrices_of_many_shapes_go_through_the_rounds_together_as_alone() -> None:
    generator = torch.Generator().manual_seed(3)
    stacks = [torch.randn(shape, generator=generator) for shape in ((2, 12, 50), (1, 30, 12), (3, 7, 7), (1, 12, 12))]
    for found, stack in zip(make_orthogonal(stacks), stacks, strict=True):
        assert torch.allclose(found, make_orthogonal([stack])[0], atol=1e-4)


def test_muon_turns_matrices_and_convolutions_and_leaves_tables_and_heads_to_adam() -> None:
    model = preset("show-attend-tell", vocabulary=20, width=16, groups=4).build()
    optimizer = OptimizerSpec.parse({"kind": "muon"}).build(model)
    names = {id(weight): name for name, weight in model.named_parameters()}
    turned = {names[id(w)] for group in optimizer.param_groups if group["maps"] for w in group["params"]}
    assert "encoder.embedding.layers.0.convolution.weight" in turned
    assert any("mix" in name for name in turned)
    assert not any(name.startswith(("head", "decoder.embedding")) for name in turned)


def test_muon_goes_on_to_the_bit_with_a_convolution_in_it() -> None:
    def build() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 5))

    def step_once(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
        optimizer.zero_grad()
        model(torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(seed))).square().sum().backward()
        optimizer.step()

    spec = OptimizerSpec.parse({"kind": "muon", "rate": 0.01})
    whole, parted = build(), build()
    first, second = spec.build(whole), spec.build(parted)
    for seed in range(4):
        step_once(whole, first, seed)
    for seed in range(2):
        step_once(parted, second, seed)
    third = spec.build(parted)
    unpack(third, parted, pack(second, parted))
    for seed in range(2, 4):
        step_once(parted, third, seed)
    assert all(torch.equal(one, other) for one, other in zip(whole.parameters(), parted.parameters(), strict=True))
