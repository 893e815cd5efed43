"""Words of others: each leads to the setting of ours that it means, at its place and with its value, or nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

import regard
from regard.config import assignments, merge
from regard.core.advice import advise
from regard.core.block import BlockSpec
from regard.core.foreign import CALLS, FOREIGN, NEEDLESS, ROWS
from regard.core.spec import Spec
from regard.data.batches import BatchSpec
from regard.data.tokenizer import TokenizerSpec
from regard.decode.search import Search
from regard.errors import InputError, SpecError
from regard.mixers.attention import Attention
from regard.mixers.recurrent import Recurrent
from regard.mixers.turing import Turing
from regard.models import families, preset
from regard.parts.feedforward import FeedForward
from regard.parts.norm import LayerNorm
from regard.parts.position import Rotary
from regard.runs.settings import Page, list_pages, list_roles
from regard.runs.spec import RunSpec
from regard.train.optimizer import SGD, AdamW
from regard.train.schedule import Cosine, StableDecay
from regard.train.spec import TrainSpec

GPT2, GRU, NTM = (families()[name].settings for name in ("gpt2", "rnn", "turing"))
PAIRS: dict[str, Any] = {"corpus": "copy", "model": "transformer-tiny", "train": {"steps": 3}, "out": "runs/x"}
TEXT = PAIRS | {"task": "language", "corpus": "python-stdlib"}
RUNS = {
    "translation": PAIRS,
    "lstm": PAIRS | {"model": "bahdanau"},
    "language": TEXT | {"model": "gpt2"},
    "llama": TEXT | {"model": "llama-tiny"},
    "mixtral": TEXT | {"model": "mixtral-8x7b"},
    "recurrent": TEXT | {"model": "lstm"},
    "sgd": PAIRS | {"train": {"steps": 3, "optimizer": "sgd"}},
}

# what stands at the top of a run file, and what is said to be meant
WORDS = [
    ("translation", "lr", "1e-3", "train.optimizer.rate=1e-3"),
    ("translation", "learning_rate", 0.001, "train.optimizer.rate=0.001"),
    ("translation", "d_model", 512, "model.width=512"),
    ("translation", "hidden_size", 512, "model.width=512"),
    ("language", "n_embd", 768, "model.width=768"),
    ("translation", "embed_dim", 64, "model.width=64"),
    ("translation", "num_layers", 2, "model.depth=2"),
    ("language", "n_layer", 2, "model.depth=2"),
    ("translation", "num_hidden_layers", 2, "model.depth=2"),
    ("translation", "decoder_layers", 2, "model.decoder_depth=2"),
    ("language", "n_head", 4, "model.heads=4"),
    ("translation", "nhead", 4, "model.heads=4"),
    ("translation", "num_heads", 4, "model.heads=4"),
    ("translation", "num_attention_heads", 4, "model.heads=4"),
    ("translation", "d_ff", 256, "model.hidden=256"),
    ("translation", "dim_feedforward", 256, "model.hidden=256"),
    ("translation", "intermediate_size", 256, "model.hidden=256"),
    ("language", "n_inner", 256, "model.hidden=256"),
    ("translation", "vocab_size", 4000, "tokenizer.vocabulary=4000"),
    ("translation", "src_vocab_size", 4000, "tokenizer.vocabulary=4000"),
    ("translation", "tgt_vocab_size", 4000, "tokenizer.vocabulary=4000"),
    ("language", "max_seq_len", 64, "task.context=64"),
    ("language", "block_size", 64, "task.context=64"),
    ("language", "n_positions", 64, "task.context=64"),
    ("language", "max_position_embeddings", 64, "task.context=64"),
    ("language", "max_length", 64, "task.context=64"),
    ("translation", "num_epochs", 3, "train.epochs=3"),
    ("translation", "num_train_epochs", 3.0, "train.epochs=3.0"),
    ("translation", "epochs", 3, "train.epochs=3"),
    ("translation", "max_steps", 500, "train.steps=500"),
    ("translation", "max_iters", 500, "train.steps=500"),
    ("translation", "warmup_steps", 400, "train.schedule.warmup=400"),
    ("translation", "warmup_ratio", 0.06, "train.schedule.warmup=0.06"),
    ("translation", "weight_decay", 0.1, "train.optimizer.decay=0.1"),
    ("translation", "grad_clip", 0.5, "train.clip=0.5"),
    ("translation", "grad_clip", 0.0, "train.clip=null"),
    ("translation", "max_grad_norm", 1.0, "train.clip=1.0"),
    ("translation", "clip_norm", 1.0, "train.clip=1.0"),
    ("translation", "gradient_accumulation_steps", 8, "train.accumulate=8"),
    ("translation", "accum_count", 8, "train.accumulate=8"),
    ("translation", "dropout", 0.2, "model.dropout=0.2"),
    ("translation", "dropout_rate", 0.2, "model.dropout=0.2"),
    ("translation", "hidden_dropout_prob", 0.2, "model.dropout=0.2"),
    ("translation", "attention_dropout", 0.2, "model.attention_dropout=0.2"),
    ("translation", "num_beams", 4, "task.search.beam=4"),
    ("translation", "beam_size", 4, "task.search.beam=4"),
    ("translation", "max_new_tokens", 50, "task.search.max_tokens=50"),
    ("translation", "do_sample", True, "task.search.sample=true"),
    ("translation", "temperature", 0.7, "task.search.temperature=0.7"),
    ("translation", "top_k", 40, "task.search.top_k=40"),
    ("translation", "top_p", 0.9, "task.search.top_p=0.9"),
    ("translation", "repetition_penalty", 1.2, "task.search.repetition=1.2"),
    ("translation", "length_penalty", 0.6, "task.search.length=power task.search.alpha=0.6"),
    ("translation", "no_repeat_ngram_size", 3, "task.search.no_repeat=3"),
    ("translation", "label_smoothing_factor", 0.2, "task.smoothing=0.2"),
    ("translation", "adam_beta1", 0.8, "train.optimizer.betas=[0.8,0.98]"),
    ("translation", "adam_beta2", 0.999, "train.optimizer.betas=[0.9,0.999]"),
    ("translation", "betas", [0.9, 0.95], "train.optimizer.betas=[0.9,0.95]"),
    ("sgd", "momentum", 0.9, "train.optimizer.momentum=0.9"),
    ("translation", "random_seed", 7, "seed=7"),
    ("translation", "eval_steps", 200, "train.evaluate=200"),
    ("translation", "save_steps", 200, "train.save=200"),
    ("translation", "save_total_limit", 3, "train.keep=3"),
    ("translation", "lr_scheduler_type", "cosine", "train.schedule=cosine"),
    ("translation", "lr_scheduler_type", "inverse_sqrt", "train.schedule=inverse-root"),
    ("translation", "optim", "adamw_torch", "train.optimizer=adamw"),
    ("translation", "optimizer", "Adam", "train.optimizer=adam"),
    ("translation", "output_dir", "there", "out=there"),
    ("translation", "bf16", True, "train.precision=bf16"),
    ("translation", "bf16", False, "train.precision=fp32"),
    ("lstm", "rnn_type", "GRU", "model.cell=gru"),
    ("lstm", "bidirectional", True, "model.direction=both"),
    ("recurrent", "bidirectional", True, "model.both=true"),
    ("language", "tie_word_embeddings", False, "model.tied=false"),
    ("translation", "share_embeddings", True, "model.share=true"),
    ("translation", "share_all_embeddings", True, "model.share=true model.tied=true"),
    ("llama", "num_key_value_heads", 2, "model.kv_heads=2"),
    ("llama", "rope_theta", 5e5, "model.base=500000.0"),
    ("llama", "rms_norm_eps", 1e-6, "model.eps=1e-06"),
    ("llama", "sliding_window", 64, "model.window=64"),
    ("language", "layer_norm_eps", 1e-6, "model.eps=1e-06"),
    ("language", "hidden_act", "gelu_new", "model.activation=gelu-tanh"),
    ("language", "activation_function", "relu", "model.activation=relu"),
    ("mixtral", "num_experts", 4, "model.experts=4"),
    ("mixtral", "num_experts_per_tok", 1, "model.top=1"),
    ("translation", "early_stopping", 3, "train.patience=3"),
    ("translation", "early_stopping", True, "task.search.until=full"),
    ("translation", "max_tokens", 2048, "batches.tokens=2048"),
    ("translation", "minutes", 30, "train.minutes=30"),
    ("translation", "no_cuda", True, "device=cpu"),
]


def complain(document: Mapping[str, Any]) -> str:
    with pytest.raises(SpecError) as caught:
        RunSpec.parse(document)
    return caught.value.message


@pytest.mark.parametrize(("run", "word", "value", "meant"), WORDS, ids=lambda value: str(value).replace("/", ""))
def test_a_word_at_the_top_leads_to_an_assignment_that_works(run: str, word: str, value: Any, meant: str) -> None:
    found = complain(RUNS[run] | {word: value})
    assert found.startswith(f"{word}: unknown setting; did you mean {meant}?"), found
    RunSpec.parse(merge(RUNS[run], assignments(meant.split())))


@pytest.mark.parametrize("place", ["train", "train.optimizer", "train.schedule", "batches", "tokenizer"])
@pytest.mark.parametrize(
    ("word", "value", "meant"),
    [("lr", 0.001, "train.optimizer.rate=0.001"), ("d_model", 64, "model.width=64"), ("num_beams", 4, "search.beam=4")],
)
def test_a_word_leads_to_its_own_place_from_wherever_it_stands(place: str, word: str, value: Any, meant: str) -> None:
    wrong = merge(PAIRS, assignments([f"{place}.{word}={value}"]))
    assert f"{place}.{word}: unknown setting; did you mean {meant.replace('search', 'task.search')}?" in complain(wrong)


@pytest.mark.parametrize(
    ("word", "value", "told"),
    [
        (
            "batch_size",
            32,
            "did you mean batches.tokens? It counts tokens, pads included; batches.rows counts samples (given: 32)",
        ),
        ("per_device_train_batch_size", 8, "did you mean batches.tokens? It counts tokens"),
        ("max_length", 128, "did you mean batches.longest? Longer sentences are left out, and not cut (given: 128)"),
        ("min_length", 5, "did you mean task.search.min_tokens? It counts new tokens alone (given: 5)"),
        ("min_lr", 1e-5, "did you mean train.schedule.floor? It is a share of the peak"),
        ("fp16", True, "did you mean train.precision? It is fp32 or bf16; there is no fp16"),
        ("lr_scheduler_type", "polynomial", "did you mean train.schedule? (given: 'polynomial')"),
        ("logging_steps", 10, "every step is noted in metrics.jsonl"),
        ("num_experts", 8, "our word for it is model.experts, and nothing here has that; known: batches"),
        ("lora_rank", 8, "our word for it is train.adapt.rank, and nothing here has that"),
        ("vocabulary", 100, "which one? tokenizer.vocabulary, model.vocabulary"),
        ("pieces", "bpe", "did you mean tokenizer.pieces=bpe?"),
    ],
)
def test_a_value_that_means_something_else_is_not_carried_over(word: str, value: Any, told: str) -> None:
    found = complain(PAIRS | {word: value})
    assert told in found
    assert found.startswith(f"{word}: unknown setting; ")


@pytest.mark.parametrize(
    ("spec", "word", "value", "told"),
    [
        (GPT2, "hidden_size", 64, "did you mean width=64?"),
        (GPT2, "vocab_size", 64, "did you mean vocabulary=64?"),
        (GPT2, "n_positions", 64, "did you mean context=64?"),
        (GPT2, "max_length", 64, "our word for it is task.context or batches.longest or task.search.max_tokens"),
        (GPT2, "num_key_value_heads", 2, "our word for it is model.kv_heads, and nothing here has that"),
        (GRU, "num_heads", 2, "our word for it is model.heads, and nothing here has that"),
        (NTM, "head_dim", 2, "our word for it is model.size, and nothing here has that"),  # its size is a slot's
        (Turing, "head_dim", 2, "our word for it is"),
        (Attention, "head_dim", 2, "did you mean size=2?"),
        (Attention, "num_key_value_heads", 2, "did you mean kv_heads=2?"),
        (Attention, "attn_pdrop", 0.1, "did you mean dropout=0.1?"),
        (Recurrent, "attn_pdrop", 0.1, "our word for it is"),  # its dropout is between layers
        (Recurrent, "rnn_type", "GRU", "did you mean cell=gru?"),
        (FeedForward, "d_ff", 64, "did you mean hidden=64?"),
        (FeedForward, "hidden_size", 64, "our word for it is model.width"),  # its own `hidden` is something else
        (LayerNorm, "layer_norm_eps", 1e-6, "did you mean eps=1e-06?"),
        (Rotary, "rope_theta", 1e6, "did you mean base=1000000.0?"),
        (BlockSpec, "layers", 2, "our word for it is model.depth"),
        (TokenizerSpec, "vocab_size", 2000, "did you mean vocabulary=2000?"),
        (BatchSpec, "batch_size", 2, "did you mean tokens? It counts tokens"),
        (TrainSpec, "lr", 0.1, "did you mean optimizer.rate=0.1?"),
        (TrainSpec, "hidden_size", 64, "our word for it is model.width"),
        (AdamW, "weight_decay", 0.1, "did you mean decay=0.1?"),
        (AdamW, "momentum", 0.1, "nothing here has that"),
        (SGD, "lr", 0.1, "did you mean rate=0.1?"),
        (Cosine, "warmup_ratio", 0.1, "did you mean warmup=0.1?"),
        (StableDecay, "weight_decay", 0.1, "nothing here has that"),  # its own `decay` is something else
        (Search, "num_beams", 4, "did you mean beam=4?"),
        (Search, "length_penalty", 1.0, "did you mean length=power alpha=1.0?"),
        (Search, "batch_size", 4, "our word for it is batches.tokens"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value),
)
def test_a_spec_alone_answers_for_itself(spec: type[Spec], word: str, value: Any, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec(**{word: value})
    assert caught.value.message.startswith(f"{word}: unknown setting; ")
    assert told in caught.value.message


def test_within_a_part_of_a_model_a_word_is_not_of_the_model() -> None:
    model = {"kind": "mamba-130m", "depth": 1, "ffn": {"kind": "feedforward", "d_ff": 4, "hidden_size": 4}}
    found = complain(TEXT | {"model": model})
    assert "model.ffn.d_ff: unknown setting; did you mean model.ffn.hidden=4?" in found
    assert "model.ffn.hidden_size: unknown setting; our word for it is model.width, and nothing here" in found


def test_python_says_the_same() -> None:
    with pytest.raises(SpecError, match=r"n_embd: unknown setting; did you mean width=64\?"):
        preset("gpt2", n_embd=64)
    with pytest.raises(SpecError, match=r"num_beams: unknown setting; did you mean beam=4\?"):
        regard.Search(num_beams=4)  # type: ignore[call-arg]
    with pytest.raises(SpecError, match=r"num_beams: unknown setting; did you mean beam=4\?"):
        regard.Search().replace(num_beams=4)


def test_a_call_says_what_is_passed_instead() -> None:
    model = preset("decoder-tiny", vocabulary=8, depth=1).build()
    tokens = torch.ones(1, 2, dtype=torch.long)
    with pytest.raises(InputError, match=r"attention_mask[^\n]*\n  try: valid=attention_mask.bool\(\)"):
        model(tokens, attention_mask=torch.ones(1, 2))
    with pytest.raises(InputError, match=r"no argument 'use_cache'[^\n]*\n  try: model.step\("):
        model.step(tokens, model.start(1), use_cache=True)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"valid=~src_key_padding_mask"):
        model.encode(tokens, src_key_padding_mask=tokens == 0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"a model's call has no argument 'colour'"):
        model(tokens, colour=3)
    assert all(not hasattr(model, name) for name in CALLS)


@pytest.fixture(scope="module")
def pages() -> list[Page]:
    return list_pages()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.place} {row.words.split()[0]}")
def test_every_row_leads_to_a_setting_that_is_there(pages: list[Page], row: Any) -> None:
    place, _, key = row.place.lstrip(".").rpartition(".")
    there = [page for page in pages if page.place == place and any(item.name == key for item in page.settings)]
    assert there, row.place
    if row.beside:
        assert any(item.name == row.beside for page in there for item in page.settings)
    if row.values and row.closed:  # ours, where there is a choice, are among those to choose from
        for page in there:
            (setting,) = page.only(key).settings
            ours = {str(value).lower() for value in row.values.values()}
            assert ours <= {*setting.shape.choices, "true", "false"} or row.beside, (page.path, ours)


def test_our_own_keys_are_never_led_away(pages: list[Page]) -> None:
    """A key that is known at its place is used there, whatever others mean by it."""
    shared = [(role, kind, name) for role, kind, name in own_keys() if name in FOREIGN or name in NEEDLESS]
    assert len(shared) > 60
    for role, kind, name in shared:
        try:
            role.parse({"kind": kind, name: ["no such value"]})
        except SpecError as error:
            assert "unknown setting" not in error.message, (kind, name)
    assert Search(top_k=4, temperature=0.5).top_k == 4
    assert TrainSpec.parse({"epochs": 1, "optimizer": {"betas": [0.9, 0.9]}}).epochs == 1


def own_keys() -> list[tuple[type[Spec], str, str]]:
    roles = list(list_roles(Spec))
    kinds = {(role, kind): spec for role in roles for kind, spec in role.kinds.items() if issubclass(spec, role)}
    return [(role, kind, name) for (role, kind), spec in kinds.items() for name in spec.model_fields]


@pytest.mark.parametrize(
    "value", [10**5000, "x" * 10**6, [[10**5000]], {"a": 1}, None, float("nan"), object()], ids=type
)
def test_whatever_was_given_the_message_is_short(value: Any) -> None:
    assert len(complain(PAIRS | {"lr": value})) < 600


def test_what_is_not_a_word_of_others_is_a_slip_or_nothing() -> None:
    assert complain(PAIRS | {"sead": 3}) == "sead: unknown setting; did you mean 'seed'? (given: 3)"
    assert "known: batches, corpus" in complain(PAIRS | {"colour": 3})
    assert advise(RunSpec, PAIRS, ("model", "colour"), 3, ["width"]) == "; known: width"
