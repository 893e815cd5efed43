"""Training of a part: what is frozen doesn't move, and adapters and a base make a plain model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config import Document, assignments, merge
from regard.core.model import Model
from regard.errors import CheckpointError, SpecError
from regard.models import preset
from regard.runs.folder import Run
from regard.runs.load import load_bundle
from regard.runs.verify import verify
from regard.train.adapt import AdaptSpec, Fresh, Lora, adapters, freeze, merge_lora, plain, restore, settle
from regard.train.checkpoint import Store
from regard.train.optimizer import AdamW
from tests.train.small import trainer

CLASSES = {"kind": "classes", "classes": 3, "dense": True}
MODELS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "gpt2": ("gpt2", {}, ("*.query", "*.value")),
    "bert": ("bert-tiny", {"head": CLASSES}, ("*.query", "*.value", "*.ffn.inner.up")),
    "mamba": ("mamba-130m", {"tied": False}, ("*.input", "*.output")),
    "latent": ("deepseek-tiny", {}, ("*.expand", "*.query")),  # it reads the matrix itself
    "lstm": ("lstm", {}, ("*.query",)),
}
ADAPTED = [name for name in MODELS if name != "lstm"]


def model_of(name: str) -> Model:
    torch.manual_seed(0)
    known, settings, _ = MODELS[name]
    return preset(known, depth=2, width=16, vocabulary=20, **settings).build().eval()


def lora_of(name: str) -> Lora:
    return Lora(rank=2, alpha=6.0, targets=MODELS[name][2])


def tokens(seed: int = 0) -> Tensor:
    return torch.randint(20, (3, 6), generator=torch.Generator().manual_seed(seed))


def trained(model: Model, steps: int = 3) -> Model:
    optimizer = AdamW(rate=0.05).build(model)
    for seed in range(steps):
        optimizer.zero_grad()
        (model(tokens(seed)) - 1).square().sum().backward()
        optimizer.step()
    return model


def state(model: nn.Module) -> dict[str, Tensor]:
    return {plain(name): tensor.clone() for name, tensor in model.state_dict().items()}


HEAD = Fresh(("head.*",))  # fine-tuning gave it a head of its own
FRESH = {"bert": HEAD}


def attached(name: str) -> Model:
    model = model_of(name)
    lora_of(name).attach(model, FRESH.get(name, Fresh()))
    return model


@pytest.mark.parametrize("name", ADAPTED)
def test_an_adapted_model_starts_as_the_model_that_it_was(name: str) -> None:
    base, model = model_of(name), attached(name)
    assert torch.equal(model(tokens()), base(tokens()))
    added = adapters(model)
    assert all(tensor.count_nonzero() for key, tensor in added.items() if key.endswith("lora.down"))
    assert not any(tensor.count_nonzero() for key, tensor in added.items() if key.endswith("lora.up"))


@pytest.mark.parametrize("name", ADAPTED)
def test_training_moves_the_adapters_and_a_head_that_is_new_and_nothing_else(name: str) -> None:
    model = attached(name)
    before = state(model)
    after = state(trained(model))
    moved = {key for key in before if not torch.equal(before[key], after[key])}
    new = "head." if name == "bert" else ".lora."  # an untied head that was trained before stays, as a tied one does
    assert moved == {key for key in before if ".lora." in key or key.startswith(new)} == set(adapters(model))
    assert set(model_of(name).state_dict()) == {key for key in before if ".lora." not in key}


@pytest.mark.parametrize("name", ADAPTED)
def test_base_and_adapters_make_a_plain_model(name: str) -> None:
    base, model = model_of(name), trained(attached(name))
    weights = merge_lora(base.state_dict(), adapters(model), lora_of(name))
    plainly = model_of(name)
    plainly.load_state_dict(weights)
    assert torch.allclose(plainly(tokens()), model(tokens()), atol=1e-5)
    assert not torch.allclose(base(tokens()), model(tokens()), atol=1e-2)


@pytest.mark.parametrize("name", ["gpt2", "mamba", "latent"])
def test_a_step_sees_the_adapters_too(name: str) -> None:
    model = trained(attached(name))
    with torch.no_grad():
        progress = model.start(3)
        steps = [model.step(column, progress) for column in tokens().T]
        assert torch.allclose(torch.stack(steps, 1), model(tokens()), atol=1e-4)


@pytest.mark.parametrize("name", ADAPTED)
def test_a_settled_model_is_plain_and_equals_the_merged_one_to_the_bit(name: str) -> None:
    base, model = model_of(name), trained(attached(name))
    weights = merge_lora(base.state_dict(), adapters(model), lora_of(name))
    answer = model(tokens())
    settle(model)
    assert torch.equal(model(tokens()), answer)
    assert {key: type(module) for key, module in model.named_modules()} == {
        key: type(module) for key, module in base.named_modules()
    }
    found = model.state_dict()
    assert set(found) == set(weights)
    assert all(torch.equal(found[key], tensor) for key, tensor in weights.items())


@pytest.mark.parametrize("name", ADAPTED)
def test_adapters_that_are_put_back_are_the_same(name: str) -> None:
    model = trained(attached(name))
    again = model_of(name)
    torch.manual_seed(5)  # another start
    lora_of(name).attach(again, FRESH.get(name, Fresh()))
    restore(again, {key: tensor.clone() for key, tensor in adapters(model).items()})
    assert torch.equal(again(tokens()), model(tokens()))


def test_adapters_have_plain_names() -> None:
    names = set(adapters(attached("gpt2")))
    assert names == {
        f"decoder.blocks.{block}.mix.inner.{layer}.lora.{side}"
        for block in (0, 1)
        for layer in ("query", "value")
        for side in ("down", "up")
    }
    assert {name for name in adapters(attached("bert")) if ".lora." not in name} == {
        "head.pooler.dense.weight",
        "head.pooler.dense.bias",
        "head.classes.weight",
        "head.classes.bias",
    }


def test_a_new_head_has_no_adapters_because_it_is_trained_whole() -> None:
    model = model_of("bert")
    Lora(rank=2, targets=("*",)).attach(model, HEAD)
    assert not any(name.startswith("head.") and ".lora." in name for name in adapters(model))
    with pytest.raises(SpecError, match=r"no linear layer that is to be adapted matches 'head\.\*'"):
        Lora(rank=2, targets=("head.*",)).attach(model_of("bert"), HEAD)


def test_an_untied_head_is_trained_whole_or_adapted_only_where_that_is_asked_for() -> None:
    spec = preset("llama-tiny", depth=2, width=16, vocabulary=200, tied=False)
    plainly, whole, adapted = spec.build(), spec.build(), spec.build()
    Lora(rank=2).attach(plainly)
    assert not any(name.startswith("head.") for name in adapters(plainly))
    Lora(rank=2, whole=("head.*",)).attach(whole)
    assert {name for name in adapters(whole) if name.startswith("head.")} == {"head.words.weight"}
    Lora(rank=2, targets=("*.query", "head.words")).attach(adapted)
    names = {name for name in adapters(adapted) if name.startswith("head.")}
    assert names == {"head.words.lora.down", "head.words.lora.up"}
    with pytest.raises(SpecError, match=r"whole: no weight matches 'heads\.\*'; did you mean 'head\.\*'"):
        Lora(rank=2, whole=("heads.*",)).attach(spec.build())


def grown(tied: bool) -> tuple[Model, Fresh]:
    """A model whose task has added three tokens."""
    torch.manual_seed(0)
    settings = {"head": {"kind": "vocabulary", "tied": tied, "bias": True, "size": None if tied else 20}}
    spec = preset("gpt2", depth=2, width=16, vocabulary=20).replace(**settings)
    rows = {"decoder.embedding.tokens.weight": 17, "head.bias": 17} | ({} if tied else {"head.words.weight": 17})
    return spec.build().eval(), Fresh(rows=rows)


@pytest.mark.parametrize("tied", [True, False])
def test_rows_that_a_task_has_added_are_trained_and_the_others_stay(tied: bool) -> None:
    (base, fresh), (model, _) = grown(tied), grown(tied)
    spec = Lora(rank=2)
    spec.attach(model, fresh)
    assert torch.equal(model(tokens()), base(tokens()))
    assert {f"{name}.added" for name in fresh.rows} == {name for name in adapters(model) if ".lora." not in name}
    added = {name: tensor.clone() for name, tensor in adapters(trained(model)).items()}
    weights = merge_lora(base.state_dict(), added, spec, fresh)
    for name in fresh.rows:
        assert torch.equal(weights[name][:17], base.state_dict()[name][:17])
        assert (weights[name][17:] != base.state_dict()[name][17:]).any(-1).all()
    again, _ = grown(tied)
    spec.attach(again, fresh)
    restore(again, added)
    assert torch.equal(again(tokens()), model(tokens()))
    answer = model(tokens())
    settle(model)
    found = model.state_dict()
    assert set(found) == set(weights)
    assert all(torch.equal(found[key], tensor) for key, tensor in weights.items())
    assert torch.equal(model(tokens()), answer)


def test_new_rows_that_do_not_fit_are_refused_by_name() -> None:
    model, fresh = grown(tied=True)
    base = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    spec = Lora(rank=2)
    spec.attach(model, fresh)
    name = "decoder.embedding.tokens.weight.added"
    fewer = adapters(model) | {name: torch.zeros(2, 16)}
    for refuse in (lambda: restore(model, fewer), lambda: merge_lora(base, fewer, spec, fresh)):
        with pytest.raises(CheckpointError, match=rf"{name}: shape \(2, 16\), and the model's is \(3, 16\)"):
            refuse()
    with pytest.raises(CheckpointError, match=f"{name}: the model has no such weight"):
        merge_lora(base, adapters(model), spec)


def test_new_rows_can_be_frozen_or_adapted_like_the_rest() -> None:
    model, fresh = grown(tied=False)
    freeze(model, ["decoder.embedding.*"])
    Lora(rank=2, targets=("*.query", "head.words")).attach(model, fresh)
    names = {name for name in adapters(model) if ".mix." not in name}
    assert names == {"head.bias.added", "head.words.lora.down", "head.words.lora.up"}


def fine_tuned(folder: Path, *words: str) -> Run:
    """Adapters on an untied model that learns to translate: its task adds a token."""
    corpus = {"kind": "en-fr", "train": 100, "validation": 4, "test": 4, "combinations": 0, "longest": 7}
    train = {"steps": 2, "evaluate": 0, "schedule": {"kind": "constant", "warmup": 0}}
    model = {"kind": "llama-tiny", "width": 16, "depth": 1, "heads": 2, "kv_heads": 1, "hidden": 16, "tied": False}
    common = {"corpus": corpus, "batches": {"tokens": 256}, "train": train, "tokenizer": {"vocabulary": 200}}
    first = {"task": {"kind": "language", "context": 32}, "model": model, "out": str(folder / "first")}
    run = Run.begin(Document({**common, "device": "cpu", **first}))
    trainer(run).run()
    then = {"task": "translation", "start": str(folder / "first"), "out": str(folder / "then"), "device": "cpu"}
    adapt = {"train": {**train, "steps": 6, "save": 2, "adapt": {"kind": "lora", "rank": 2}}}
    return Run.begin(Document(merge({**common, **then, **adapt}, assignments(words))))


def test_a_token_that_a_task_adds_is_learned_by_adapters_through_resume_and_merge(tmp_path: Path) -> None:
    run = fine_tuned(tmp_path)
    first = Store(run.folder / "start").latest()
    assert first is not None
    assert set(first.json("state")["fresh"]["rows"]) == {"decoder.embedding.tokens.weight", "head.words.weight"}
    trainer(run).run()
    newest = run.store.latest()
    assert newest is not None
    trained_names = {name for name in newest.tensors("adapter") if ".lora." not in name}
    assert trained_names == {"decoder.embedding.tokens.weight.added", "head.words.weight.added"}
    base, used = first.tensors("model"), load_bundle(f"{run.folder}@latest").model.state_dict()
    for name in ("decoder.embedding.tokens.weight", "head.words.weight"):
        assert torch.equal(used[name][:-1], base[name][:-1])
        assert not torch.equal(used[name][-1], base[name][-1])
    assert verify(run.folder, 6).exact


def test_adapters_of_a_run_from_before_this_keep_their_head(tmp_path: Path) -> None:
    """It kept nothing of what was new, and trained the head whole."""
    run = fine_tuned(tmp_path)
    start = Store(run.folder / "start")
    first = start.latest()
    assert first is not None
    state = {name: value for name, value in first.json("state").items() if name != "fresh"}
    files = {path.name: first.read(path.name) for path in first.path.glob("*.json") if "tokenizer" in path.name}
    start.save(0, {"model": first.tensors("model")}, {"spec": first.json("spec"), "state": state}, files)
    trainer(Run.open(run.folder)).run()
    newest = run.store.latest()
    assert newest is not None and "head.words.weight" in newest.tensors("adapter")
    used = load_bundle(f"{run.folder}@latest").model.state_dict()
    assert torch.equal(used["head.words.weight"], newest.tensors("adapter")["head.words.weight"])


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("lstm", "*.query", "no linear layer that is to be adapted matches '.*.query'; this model has none"),
        ("mamba", "*.query", r"'.*.query'; known: .*\*.input, .*\*.output"),
        ("gpt2", "*.querry", r"'.*.querry'; did you mean '\*.query'"),
        ("gpt2", "decoder.block.0.mix.inner.key", r"did you mean 'decoder.blocks.\*.mix.inner.key'"),
    ],
)
def test_a_target_that_matches_nothing_is_told_with_what_is_near(name: str, target: str, message: str) -> None:
    model = model_of(name)
    with pytest.raises(SpecError, match=message):
        Lora(rank=2, targets=(target,)).attach(model)
    assert all(weight.requires_grad for weight in model.parameters())


def test_a_rank_above_the_smaller_side_is_refused_before_anything_changes() -> None:
    model = model_of("gpt2")
    with pytest.raises(SpecError, match=r"17 is more than the smaller side of decoder.blocks.0.mix.inner.query, 16"):
        Lora(rank=17).attach(model)
    assert set(model.state_dict()) == set(model_of("gpt2").state_dict())


def test_a_second_adapter_is_refused() -> None:
    model = attached("gpt2")
    with pytest.raises(SpecError, match="has an adapter already"):
        lora_of("gpt2").attach(model)


def test_a_spec_survives_plain_data_and_needs_no_kind() -> None:
    assert AdaptSpec.parse(lora_of("bert").model_dump()) == lora_of("bert")
    assert AdaptSpec.parse({"rank": 4}) == Lora(rank=4)
    with pytest.raises(SpecError, match="targets"):
        Lora(targets=())


@pytest.mark.parametrize("missing", ["decoder.blocks.0.mix.inner.query.lora.up", "decoder.blocks.1.mix.inner.value"])
def test_adapters_that_lack_something_are_refused(missing: str) -> None:
    model = attached("gpt2")
    part = {name: tensor for name, tensor in adapters(model).items() if not name.startswith(missing)}
    with pytest.raises(CheckpointError, match=f"{missing}.*: missing"):
        restore(model, part)
    if missing.endswith("up"):
        with pytest.raises(CheckpointError, match=f"{missing}: missing"):
            merge_lora(model_of("gpt2").state_dict(), part, lora_of("gpt2"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder.blocks.0.mix.inner.query.lora.up": torch.zeros(15, 2)}, r"\(15, 2\), and the model's is \(16, 2\)"),
        (
            {"encoder.blocks.0.mix.inner.query.lora.down": torch.zeros(3, 16)},
            r"\(3, 16\), and the model's is \(2, 16\)",
        ),
        (
            {"head.classes.weight": torch.zeros(4, 16)},
            r"head.classes.weight: shape \(4, 16\), and the model's is \(3, 16",
        ),
        ({"head.classes.bias": torch.full((3,), torch.nan)}, "head.classes.bias: holds numbers that aren't finite"),
        ({"head.classes.bias": torch.zeros(3, dtype=torch.int64)}, "type torch.int64"),
        ({"head.others.bias": torch.zeros(3)}, "head.others.bias: the model has no such weight"),
        (
            {"encoder.blocks.7.mix.inner.query.lora.up": torch.zeros(16, 2)},
            "encoder.blocks.7.mix.inner.query.* no such",
        ),
    ],
)
def test_adapters_that_do_not_fit_are_refused_by_name(change: dict[str, Tensor], message: str) -> None:
    model = attached("bert")
    before = state(model)
    added = adapters(model) | change
    with pytest.raises(CheckpointError, match=message):
        restore(model, added)
    with pytest.raises(CheckpointError, match=message):
        merge_lora(model_of("bert").state_dict(), added, lora_of("bert"), HEAD)
    assert all(torch.equal(tensor, before[key]) for key, tensor in state(model).items())


def test_adapters_of_another_spec_are_refused() -> None:
    base, added = model_of("gpt2").state_dict(), adapters(attached("gpt2"))
    with pytest.raises(CheckpointError, match="value: has an adapter, and none of the targets"):
        merge_lora(base, added, Lora(rank=2, targets=("*.query",)))
    with pytest.raises(CheckpointError, match=r"\*.key: a target, and there is no adapter for it"):
        merge_lora(base, added, Lora(rank=2, targets=("*.query", "*.value", "*.key")))
    with pytest.raises(CheckpointError, match=r"\(2, 16\), and the model's is \(4, 16\)"):
        merge_lora(base, added, Lora(rank=4))


def test_a_base_without_a_head_takes_the_one_that_was_trained() -> None:
    model = trained(attached("bert"))
    base = {key: tensor for key, tensor in model_of("bert").state_dict().items() if not key.startswith("head.")}
    again = model_of("bert")
    again.load_state_dict(merge_lora(base, adapters(model), lora_of("bert")))
    assert torch.allclose(again(tokens()), model(tokens()), atol=1e-5)


def test_frozen_weights_stay_and_the_others_learn() -> None:
    model = model_of("bert")
    frozen = freeze(model, ["encoder.embedding.*", "encoder.blocks.[0-0].*"])
    names = {name for name in model.state_dict() if name.startswith(("encoder.embedding.", "encoder.blocks.0."))}
    before = state(model)
    assert frozen == sum(before[name].numel() for name in names)
    after = state(trained(model))
    assert {name for name in before if torch.equal(before[name], after[name])} == names


def test_weights_can_be_frozen_before_and_after_adapters_by_their_plain_names() -> None:
    model = model_of("bert")
    freeze(model, ["head.pooler.*"])
    lora_of("bert").attach(model, HEAD)
    assert {name for name in adapters(model) if name.startswith("head.")} == {
        "head.classes.weight",
        "head.classes.bias",
    }
    freeze(model, ["encoder.blocks.0.mix.inner.query.*"])
    assert not any(name.startswith("encoder.blocks.0.mix.inner.query") for name in adapters(model))
    assert "encoder.blocks.1.mix.inner.query.lora.up" in adapters(model)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("encoder.embeddings.*", r"no weight matches 'encoder.embeddings.\*'; did you mean 'encoder.embedding.\*'"),
        ("encoder.blocks.9.*", r"did you mean 'encoder.blocks.\*.\*'"),
        ("*.querry.bias", r"did you mean '\*.query.bias'"),
        ("head.classes.wieght", "did you mean 'head.classes.weight'"),
        ("zzz", "no weight matches 'zzz'; known: encoder.blocks"),
    ],
)
def test_a_pattern_that_matches_nothing_is_told_with_what_is_near(pattern: str, message: str) -> None:
    model = model_of("bert")
    with pytest.raises(SpecError, match=message):
        freeze(model, ["encoder.*", pattern])
    assert all(weight.requires_grad for weight in model.parameters())


@pytest.mark.parametrize("patterns", [["*"], ["encoder.*", "head.*"]])
def test_a_model_with_nothing_left_to_train_is_refused(patterns: list[str]) -> None:
    model = model_of("bert")
    with pytest.raises(SpecError, match="leave nothing to train: all 41 weights are frozen"):
        freeze(model, patterns)
    assert all(weight.requires_grad for weight in model.parameters())
