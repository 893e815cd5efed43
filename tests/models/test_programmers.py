"""Neural programmers: every weight learns, padding changes nothing, and what a probe makes of a choice is called."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
import torch

from regard.core.model import ModelSpec
from regard.core.probe import Edit, Record
from regard.core.program import OPERATIONS
from regard.data.corpora.tables import Tables
from regard.data.sample import Sample
from regard.data.tokenizer import Tokenizer, TokenizerSpec
from regard.errors import InputError
from regard.models import preset
from regard.tasks.tabular import QuestionBatch, collect, encode_sample, list_texts_of, make_cutter

NAMES = ("neural-programmer", "neural-programmer-2015")


def make_samples(count: int = 6) -> list[Sample]:
    return list(islice(Tables(columns=2, texts=1, rows=(3, 8)).stream("questions", "train"), count))


def learn_words(samples: list[Sample]) -> Tokenizer:
    return TokenizerSpec(pieces="given").train(text for sample in samples for text in list_texts_of(sample))


def make_batch(samples: list[Sample], tokenizer: Tokenizer) -> QuestionBatch:
    cut = make_cutter(tokenizer)
    return collect([encode_sample(sample, cut) for sample in samples], tokenizer.pad)


def tiny(name: str) -> ModelSpec:
    torch.manual_seed(0)
    return preset(name, width=16, vocabulary=40)


@pytest.mark.parametrize("name", NAMES)
def test_every_weight_learns(name: str) -> None:
    samples = make_samples(40)
    batch = make_batch(samples, learn_words(samples))
    model = tiny(name).build()
    answers = model(batch.inputs)
    assert answers.shape == (40, 1 + batch.chosen[0].numel())
    answers.square().mean().backward()
    for weight, values in model.named_parameters():
        assert values.grad is not None and values.grad.isfinite().all() and values.grad.abs().sum() > 0, weight


@pytest.mark.parametrize("name", NAMES)
def test_a_question_is_answered_as_if_alone(name: str) -> None:
    samples = make_samples()
    tokenizer = learn_words(samples)
    model = tiny(name).build()
    for mode in (True, False):
        model.train(mode)
        together = make_batch(samples, tokenizer)
        answers = model(together.inputs)
        for n, sample in enumerate(samples):
            alone = make_batch([sample], tokenizer)
            found = model(alone.inputs)[0]
            height, width = alone.chosen.shape[1:]
            cells = answers[n, 1:].view(together.chosen.shape[1:])
            torch.testing.assert_close(answers[n, 0], found[0], atol=1e-3, rtol=1e-4)
            torch.testing.assert_close(cells[:height, :width].flatten(), found[1:])
            assert not cells[height:].any()


def test_what_a_probe_makes_of_a_choice_is_called() -> None:
    """A program that is put in from outside is run: counting at the last step counts all rows after a reset."""
    samples = make_samples()
    batch = make_batch(samples, learn_words(samples))
    model = tiny("neural-programmer").build().eval()

    def force(name: str) -> Edit:
        wanted = torch.zeros(len(OPERATIONS))
        wanted[OPERATIONS.index(name)] = 1.0
        return Edit({"head.operation_weights": lambda weights: wanted + 0 * weights})

    seen = Record("head.*")
    with torch.no_grad():
        rows = model(replace(batch.inputs, probe=seen))
        reset = model(replace(batch.inputs, probe=force("reset")))
    assert not reset.any()  # a program that only selects has no answer
    assert torch.equal(rows, model(batch.inputs))  # watching changes nothing
    weights = seen["head.operation_weights"]
    assert weights.shape == (len(samples), 1, 4, len(OPERATIONS))
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_texts_are_found_where_the_question_names_them() -> None:
    samples = [sample for sample in make_samples(200) if "match" in sample["question"]][:20]
    tokenizer = learn_words(samples)
    model = preset("neural-programmer", width=64, vocabulary=len(tokenizer)).build().eval()
    seen = Record("head.matched")
    model(replace(make_batch(samples, tokenizer).inputs, probe=seen))
    for n, sample in enumerate(samples):
        words = sample["question"].split()
        word, width = words[words.index("match") + 1], len(sample["names"])
        found = (seen["head.matched"][n] > 0.5).flatten()[: len(sample["cells"])].tolist()
        assert len(found) == len(sample["cells"]) and width == 3
        assert found == [cell == word for cell in sample["cells"]]


def test_a_model_in_sixteen_bits_still_sums_in_full() -> None:
    samples = make_samples()
    batch = make_batch(samples, learn_words(samples))
    model = tiny("neural-programmer").build().eval()
    steps = iter((*("reset",) * 3, "sum"))

    def choose(weights: torch.Tensor) -> torch.Tensor:
        place = OPERATIONS.index(next(steps))
        return torch.nn.functional.one_hot(torch.tensor(place), len(OPERATIONS)).to(weights.dtype) + 0 * weights

    first = Edit(
        {
            "head.operation_weights": choose,
            "head.column_weights": lambda weights: torch.eye(weights.shape[-1])[0].to(weights.dtype) + 0 * weights,
        }
    )
    with torch.no_grad():
        found = model.bfloat16()(replace(batch.inputs, probe=first))[:, 0]
    assert found.tolist() == [sum(int(cell) for cell in sample["cells"][::3]) for sample in samples]


def test_a_model_without_a_table_is_told() -> None:
    with pytest.raises(InputError, match="answers questions about a table"):
        tiny("neural-programmer").build()(torch.zeros(1, 3, dtype=torch.long))
