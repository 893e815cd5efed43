"""Problems that take thought: each answer is checked by another way to it."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from regard.data.corpora.reasoning import GATES, Addition, Logic, Parity, ReasoningSpec, Sorting, choose_split
from regard.data.sample import FormSpec, Sample
from regard.errors import SpecError

Kind = type[Parity] | type[Logic] | type[Addition] | type[Sorting]
KINDS: list[Kind] = [Parity, Logic, Addition, Sorting]


def some(spec: ReasoningSpec, count: int = 200, split: Any = "train") -> list[Sample]:
    return list(islice(spec.stream("vectors", split), count))


@pytest.mark.parametrize("kind", KINDS)
def test_samples_fit_their_form_and_come_again_by_their_seed(kind: Kind) -> None:
    form, first, again, other = FormSpec.parse("vectors"), some(kind()), some(kind()), some(kind(seed=1))
    assert not any(form.find_fault(sample) for sample in first)
    same = [np.array_equal(a["vectors"], b["vectors"]) for a, b in zip(first, again, strict=True)]
    assert all(same)
    assert not all(np.array_equal(a["vectors"], b["vectors"]) for a, b in zip(first, other, strict=True))
    assert len({sample["vectors"].shape[1] for sample in first}) == 1  # whatever the size
    low, high = kind().sizes
    assert {sample["size"] for sample in first} <= set(range(low, high + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_problem_belongs_to_one_split(kind: Kind) -> None:
    for split in ("train", "validation", "test"):
        for sample in some(kind(), 60, split):
            few = kind is Parity and sample["size"] < 10  # fewer than a thousand: each split has all of them
            assert few or choose_split(sample["vectors"]) == split


@pytest.mark.parametrize(
    ("spec", "shared", "many"),
    [
        (Parity(sizes=(9, 10)), 9, 10),
        (Logic(sizes=(1, 2), longest=1), 2, None),
        (Logic(sizes=(1, 2), longest=2), 1, 2),
        (Addition(sizes=(1, 2), numbers=2), 1, 2),
    ],
)
def test_all_splits_have_the_few_problems_of_a_small_size(spec: ReasoningSpec, shared: int, many: int | None) -> None:
    """A model would otherwise be asked for sums of digits that no training has."""
    seen = {(s["size"], choose_split(s["vectors"])) for s in some(spec, 400, "test")}
    assert (shared, "train") in seen and (many, "train") not in seen
    assert many is None or (many, "test") in seen
    drawn = {s["vectors"].tobytes() for s in some(spec, 10_000) if s["size"] == shared}
    assert spec.count_problems(shared) / 2 < len(drawn) <= spec.count_problems(shared)


@pytest.mark.parametrize("scattered", [False, True])
def test_parity_is_that_of_the_ones(scattered: bool) -> None:
    for sample in some(Parity(scattered=scattered)):
        [vector] = sample["vectors"]
        assert np.count_nonzero(vector) == sample["size"]
        assert scattered or vector[: sample["size"]].all()
        assert sample["answers"] == [("even", "odd")[int((vector == 1).sum()) % 2]]


def test_logic_goes_through_its_gates() -> None:
    tables = list(GATES.values())
    assert len(set(tables)) == 10
    for sample in some(Logic()):
        before = None
        for vector, answer in zip(sample["vectors"], sample["answers"], strict=True):
            bits = [int(vector[0]) if before is None else before, int(vector[1])]
            gates = vector[2:].reshape(10, 10)
            assert gates.sum(1).tolist() == [1] * sample["size"] + [0] * (10 - sample["size"])
            for gate in gates[: sample["size"]]:
                bits.append(tables[int(gate.argmax())][2 * bits[-1] + bits[-2]])
            before = bits[-1]
            assert answer == str(before)


def test_additions_add_up() -> None:
    for sample in some(Addition()):
        total = 0
        for place, (vector, answer) in enumerate(zip(sample["vectors"], sample["answers"], strict=True)):
            digits = vector.reshape(5, 10)
            written = "".join(str(int(digit.argmax())) for digit in digits if digit.any())
            assert 1 <= len(written) <= sample["size"]
            total += int(written)
            assert (int(answer.replace(" ", "").replace("-", "")) == total) if place else answer == ""
            assert not place or len(answer.split()) == 6


def test_sorting_puts_numbers_in_order() -> None:
    for sample in some(Sorting()):
        size = sample["size"]
        numbers, answers = sample["vectors"][:size, 0], sample["answers"][size:]
        assert sample["vectors"][:, 1].nonzero()[0].tolist() == [size - 1] and not sample["vectors"][size:].any()
        assert sorted(map(int, answers)) == list(range(1, size + 1))
        ordered = [numbers[int(place) - 1] for place in answers]
        assert ordered == sorted(ordered)


@pytest.mark.parametrize(
    "spec", [Parity(sizes=(1, 65)), Logic(sizes=(1, 11)), Addition(numbers=1), Sorting(sizes=(5, 4))], ids=str
)
def test_sizes_that_cannot_be_are_refused_at_once(spec: ReasoningSpec) -> None:
    with pytest.raises(SpecError) as caught:
        some(spec, 1)
    assert any(sign.isdigit() for sign in caught.value.message)
