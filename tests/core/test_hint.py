"""Hints: right, or none."""

from __future__ import annotations

from typing import Any

import pytest

from regard.core.block import BlockSpec
from regard.core.hint import FOREIGN, nearest, slips, suggest
from regard.core.spec import Spec
from regard.data.batches import BatchSpec
from regard.data.tokenizer import TokenizerSpec
from regard.errors import SpecError
from regard.mixers.turing import Turing
from regard.models import families, preset, presets
from regard.parts.feedforward import FeedForward
from regard.runs.spec import RunSpec
from regard.train.optimizer import AdamW
from regard.train.schedule import Cosine
from regard.train.spec import TrainSpec

GPT2, GRU = families()["gpt2"].settings, families()["rnn"].settings


@pytest.mark.parametrize(
    ("spec", "word", "meant"),
    [
        (GPT2, "hidden_size", "width"),
        (GPT2, "d_model", "width"),
        (GPT2, "n_embd", "width"),
        (GPT2, "layers", "depth"),
        (GPT2, "n_layers", "depth"),
        (GPT2, "num_layers", "depth"),
        (GPT2, "num_attention_heads", "heads"),
        (GPT2, "intermediate_size", "hidden"),
        (GPT2, "vocab_size", "vocabulary"),
        (GPT2, "n_positions", "context"),
        (GPT2, "max_length", None),
        (GRU, "hidden_size", "width"),
        (GRU, "num_heads", None),
        (Turing, "head_dim", None),
        (FeedForward, "hidden_size", None),  # its own `hidden` is something else
        (FeedForward, "d_ff", "hidden"),
        (BlockSpec, "layers", None),
        (TokenizerSpec, "vocab_size", "vocabulary"),
        (BatchSpec, "batch_size", "tokens"),
        (TrainSpec, "warmup_steps", "schedule.warmup"),
        (TrainSpec, "learning_rate", "optimizer.rate"),
        (TrainSpec, "lr", "optimizer.rate"),
        (TrainSpec, "max_steps", "steps"),
        (TrainSpec, "num_epochs", "epochs"),
        (TrainSpec, "batch_size", None),
        (TrainSpec, "hidden_size", None),
        (TrainSpec, "weight_decay", "optimizer.decay"),
        (AdamW, "lr", "rate"),
        (AdamW, "weight_decay", "decay"),
        (Cosine, "warmup_steps", "warmup"),
        (Cosine, "warmup_ratio", "warmup"),
        (RunSpec, "learning_rate", "train.optimizer.rate"),
        (RunSpec, "batch_size", "batches.tokens"),
        (RunSpec, "vocab_size", "tokenizer.vocabulary"),
        (RunSpec, "hidden_size", "model.width"),
        (RunSpec, "warmup_steps", "train.schedule.warmup"),
        (RunSpec, "output_dir", "out"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value),
)
def test_a_word_from_elsewhere_is_led_to_ours_or_nowhere(spec: type[Spec], word: str, meant: str | None) -> None:
    found = suggest(word, spec.model_fields)
    assert found == f"; did you mean {meant!r}?" if meant else found.startswith("; known: ")


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("transformer", "; which one? transformer-base, transformer-big, transformer-tiny"),
        ("bert", "; which one? bert-base, bert-large, bert-tiny"),
        ("Transformer-Tiny", "; did you mean 'transformer-tiny'?"),
        ("gpt-2", "; did you mean 'gpt2'?"),
        ("llama2-8b", "; known: "),  # another size is another model
        ("llama3-7b", "; known: "),
        ("gpt4", "; known: "),
        ("reformer", "; known: "),
    ],
)
def test_a_preset_that_is_not_there_is_never_answered_with_another(word: str, found: str) -> None:
    assert suggest(word, presets()).startswith(found)
    with pytest.raises(SpecError, match="no preset is called"):
        preset(word)


def test_what_a_word_stands_for_is_a_setting_of_every_run_file() -> None:
    """Those with a place: a run file that says so is understood."""
    places = {ours for every in FOREIGN.values() for ours in every if "." in ours}
    for place in places:
        spec: Any = RunSpec
        for part in place.split("."):
            if spec is None:  # a model's settings are its family's
                break
            assert part in spec.model_fields, place
            default = spec.model_fields[part].default
            spec = type(default) if isinstance(default, Spec) else {"train": TrainSpec, "model": None}.get(part)


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [("heads", "haeds", 1), ("width", "width", 0), ("rate", "rat", 1), ("steps", "spets", 2), ("ab", "ba", 1)],
)
def test_slips_are_counted_with_swaps_as_one(one: str, other: str, count: int) -> None:
    assert slips(one, other) == slips(other, one) == count


def test_two_words_as_near_are_none() -> None:
    assert nearest("patt", ["part", "path"]) is None
    assert nearest("depht", ["depth", "width"]) == "depth"
    assert nearest("x" * 10**6, ["depth"]) is None
