"""Algorithmic tasks: each answer is checked by another way to it."""

from __future__ import annotations

from itertools import islice, pairwise
from random import Random
from typing import get_args

import pytest

from regard.data.corpora.algorithms import (
    ALGORITHMS,
    HINTS,
    SPACES,
    AlgorithmSpec,
    Problem,
    Split,
    adding,
    choose_split,
    natural,
    problems,
    write_digits,
)
from regard.data.corpus import CorpusSpec
from regard.data.sample import FormSpec
from regard.errors import SpecError

SPLITS: tuple[Split, ...] = get_args(Split)
CASES: list[tuple[str, dict[str, int]]] = [
    ("copy", {}),
    ("reverse", {"symbols": 3}),
    ("sort", {}),
    ("add", {}),
    ("add", {"reverse": True}),
    ("add", {"hints": True}),
    ("add", {"reverse": True, "hints": True}),
    ("induction", {}),
    ("selective-copy", {"tokens": 4}),
]


def some(
    name: str,
    sizes: tuple[int, int] = (4, 9),
    count: int = 300,
    seed: str = "train 0",
    options: dict[str, int] | None = None,
) -> list[Problem]:
    return list(islice(problems(name, seed, sizes, options), count))


def numbers(tokens: list[str], reverse: bool = False) -> list[int]:
    """The numbers on both sides of the plus, or the sum, without hints."""
    bare = [token for token in tokens if token not in HINTS]
    texts = "".join(bare).split("+")
    return [int(text[::-1] if reverse else text) for text in texts]


def sources(made: list[Problem]) -> set[str]:
    return {" ".join(problem.source) for problem in made}


def test_copy_copies() -> None:
    for problem in some("copy"):
        assert problem.target == problem.source and set(problem.source) <= set("abcdefghij")


def test_reverse_reverses() -> None:
    for problem in some("reverse", options={"symbols": 3}):
        assert problem.target == list(reversed(problem.source)) and set(problem.source) <= set("abc")


@pytest.mark.parametrize(("symbols", "alphabet"), [(2, "01"), (10, "0123456789"), (12, "0123456789ab")])
def test_sort_sorts(symbols: int, alphabet: str) -> None:
    made = some("sort", options={"symbols": symbols})
    for problem in made:
        assert problem.target == [token for token in alphabet for _ in range(problem.source.count(token))]
    assert {token for problem in made for token in problem.source} == set(alphabet)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("hints", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 6), (20, 30)])
def test_sums_are_right(reverse: bool, hints: bool, sizes: tuple[int, int]) -> None:
    for problem in some("add", sizes, options={"reverse": reverse, "hints": hints}):
        assert sum(numbers(problem.source, reverse)) == numbers(problem.target, reverse)[0]
        assert max(len(str(value)) for value in numbers(problem.source, reverse)) == problem.size


def test_numbers_are_written_without_leading_zeros_unless_there_are_hints() -> None:
    for problem in some("add", (1, 5)):
        texts = [*"".join(problem.source).split("+"), "".join(problem.target)]
        assert all(text == str(int(text)) for text in texts)


def test_either_number_may_be_the_longer_one() -> None:
    pairs = [numbers(problem.source) for problem in some("add", (4, 4))]
    assert any(left > 999 > right for left, right in pairs) and any(right > 999 > left for left, right in pairs)
    assert {len(str(value)) for pair in pairs for value in pair} == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("places", "reverse", "texts"),
    [
        ("", False, ["1 2 3", "4 5", "1 6 8"]),
        ("", True, ["3 2 1", "5 4", "8 6 1"]),
        ("dcba", False, ["b 1 c 2 d 3", "b 0 c 4 d 5", "b 1 c 6 d 8"]),
        ("abcd", True, ["a 3 b 2 c 1", "a 5 b 4 c 0", "a 8 b 6 c 1"]),
    ],
)
def test_numbers_look_as_they_should(places: str, reverse: bool, texts: list[str]) -> None:
    assert [" ".join(write_digits(value, places, reverse)) for value in (123, 45, 168)] == texts


def test_a_carry_has_the_letter_next_to_the_others() -> None:
    assert " ".join(write_digits(1005, "dcba", reverse=False)) == "a 1 b 0 c 0 d 5"
    assert " ".join(write_digits(1005, "abcd", reverse=True)) == "a 5 b 0 c 0 d 1"


@pytest.mark.parametrize("reverse", [False, True])
def test_hints_mark_the_same_place_with_the_same_letter(reverse: bool) -> None:
    carries = 0
    for problem in some("add", (1, 8), options={"reverse": reverse, "hints": True}):
        plus = problem.source.index("+")
        left, right, total = problem.source[:plus], problem.source[plus + 1 :], problem.target
        assert len(left) == len(right) == 2 * problem.size
        marks = "".join(left[::2])
        assert marks in HINTS and marks == "".join(right[::2])
        if len(total) == len(left):
            assert "".join(total[::2]) == marks
        else:
            carries += 1
            more = "".join(total[::2])
            assert more in HINTS and len(more) == problem.size + 1
            assert more.startswith(marks) if reverse else more.endswith(marks)
    assert carries


def test_short_sums_show_the_letters_that_long_ones_need() -> None:
    made = some("add", (1, 4), 2000, options={"hints": True})
    assert {token for problem in made for token in problem.source + problem.target} == {*HINTS, *"0123456789", "+"}


def test_the_trigger_appears_twice_and_the_answer_is_what_follows_it() -> None:
    places = set()
    for problem in some("induction", (3, 8), 1000):
        assert problem.source.count("!") == 2 and problem.source[-1] == "!" and len(problem.source) == problem.size
        after = [following for token, following in pairwise(problem.source) if token == "!"]
        assert problem.target == after[:1] and problem.target != ["!"]
        if problem.size == 8:
            places.add(problem.source.index("!"))
    assert places == set(range(6))


def test_a_vocabulary_counts_the_trigger() -> None:
    made = some("induction", (10, 20))
    assert len({token for problem in made for token in problem.source}) == 16


def test_selective_copy_leaves_the_noise_out() -> None:
    made = some("selective-copy", (16, 40))
    for problem in made:
        assert [token for token in problem.source if token != "."] == problem.target and len(problem.target) == 16
        assert len(problem.source) == problem.size
    assert len({token for problem in made for token in problem.source}) == 16


@pytest.mark.parametrize("size", [2, 3, 10, 51])
def test_adding_marks_one_value_of_each_half(size: int) -> None:
    random, marked = Random(0), set()
    for _ in range(200):
        series = adding(random, size)
        assert len(series.values) == len(series.marks) == size and set(series.marks) <= {0, 1}
        first, second = (place for place, mark in enumerate(series.marks) if mark)
        assert first < size // 2 <= second
        assert series.target == pytest.approx(series.values[first] + series.values[second], abs=1e-9)
        assert all(0 <= value <= 1 and value == round(value, 4) for value in series.values)
        marked |= {first, second}
    assert marked == set(range(size)) or size > 10


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_stream_is_the_same_for_the_same_seed(name: str, options: dict[str, int]) -> None:
    first = some(name, options=options)
    assert first == some(name, options=options)
    assert first != some(name, seed="train 1", options=options)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_splits_share_no_problem_whatever_the_seed(name: str, options: dict[str, int]) -> None:
    found = [
        {
            " ".join(problem.source)
            for seed in range(2)
            for problem in some(name, seed=f"{split} {seed}", options=options)
        }
        for split in SPLITS
    ]
    assert sum(map(len, found)) == len(set().union(*found))


def test_splits_share_no_problem_of_a_small_size_either() -> None:
    """The ten problems of size 1 are shared out too, though a split may have none of them."""
    made = {split: some("copy", (1, 5), 2000, seed=f"{split} 0") for split in SPLITS}
    short = [{problem.source[0] for problem in made[split] if problem.size == 1} for split in SPLITS]
    assert sum(map(len, short)) == len(set().union(*short)) == 10


def test_a_sum_in_other_letters_is_the_same_problem() -> None:
    train = {str(numbers(problem.source)) for problem in some("add", (1, 2), 3000, options={"hints": True})}
    test = {
        str(numbers(problem.source)) for problem in some("add", (1, 2), 300, seed="test 0", options={"hints": True})
    }
    assert len(train) > 1000 and len(test) > 100 and not train & test


def test_shares_are_as_told() -> None:
    random = Random(0)
    found = [choose_split(ALGORITHMS["copy"](random, 12)) for _ in range(4000)]
    assert 0.88 < found.count("train") / 4000 < 0.92
    assert all(0.04 < found.count(split) / 4000 < 0.06 for split in SPLITS[1:])


@pytest.mark.parametrize(("sizes", "shared"), [((2, 2), True), ((3, 3), False)])
def test_fewer_than_a_thousand_problems_are_not_shared_out(sizes: tuple[int, int], shared: bool) -> None:
    train, test = (sources(some("copy", sizes, 3000, seed=f"{split} 0")) for split in ("train", "test"))
    assert bool(train & test) == shared
    assert not shared or len(train) == len(test) == 100


@pytest.mark.parametrize(
    ("name", "size", "options"),
    [
        ("copy", 2, {}), ("reverse", 3, {"symbols": 4}), ("sort", 1, {}), ("add", 1, {}), ("add", 1, {"hints": True}),
        ("induction", 3, {}), ("induction", 4, {"vocabulary": 6}), ("selective-copy", 5, {"tokens": 2, "symbols": 4}),
    ],
)  # fmt: skip
def test_problems_are_counted_right(name: str, size: int, options: dict[str, int]) -> None:
    random = Random(0)
    made = [ALGORITHMS[name](random, size, **options) for _ in range(5000)]
    found = {" ".join(token for token in problem.source if name != "add" or token not in HINTS) for problem in made}
    assert len(found) == SPACES[name](size, **options)


def test_sums_of_two_digits_are_counted_right() -> None:
    pairs = [(left, right) for left in range(100) for right in range(100) if max(left, right) > 9]
    assert SPACES["add"](2) == len(pairs)
    assert {len(str(natural(Random(seed), 2))) for seed in range(100)} == {2}


def test_sizes_are_drawn_evenly_and_both_ends_are_there() -> None:
    made = [problem.size for problem in some("copy", (4, 9), 3000)]
    assert all(400 < made.count(size) < 600 for size in range(4, 10)) and set(made) == set(range(4, 10))


def test_longer_problems_take_other_sizes() -> None:
    assert {len(problem.source) for problem in some("copy", (100, 101), 20, seed="test 0")} == {100, 101}


@pytest.mark.parametrize(
    ("name", "sizes", "options", "message"),
    [
        ("divide", (1, 2), {}, "algorithm divide is none of copy, reverse"),
        ("copy", (1, 2), {"hints": True}, "copy has no hints; it has symbols"),
        ("copy", (5, 2), {}, "sizes 5 to 2"),
        ("copy", (0, 2), {}, "sizes 0 to 2"),
        ("copy", (1, 2), {"symbols": 27}, "27 symbols: there must be 1 to 26"),
        ("induction", (2, 9), {}, "induction: size 2"),
        ("selective-copy", (15, 40), {}, "16 tokens among 15"),
        ("add", (1, 60), {"hints": True}, "numbers of 60 digits need 61 letters, and there are 52"),
    ],
)
def test_what_cannot_be_made_is_told_at_once(
    name: str, sizes: tuple[int, int], options: dict[str, int], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        problems(name, "train 0", sizes, options)


def test_a_series_needs_two_halves() -> None:
    with pytest.raises(SpecError, match="size 1 has no two halves"):
        adding(Random(0), 1)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="dev is none of train, validation, test"):
        problems("copy", "dev 0", (1, 2))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_problems_are_put_and_answered_in_conversations_too(name: str) -> None:
    corpus = CorpusSpec.parse({"kind": name, "sizes": [16, 20]})
    assert isinstance(corpus, AlgorithmSpec)
    pairs, talks, prompts = (islice(corpus.stream(form, "train"), 20) for form in corpus.gives)
    for pair, talk, prompt in zip(pairs, talks, prompts, strict=True):
        question = {"role": "user", "content": pair["source"]}
        assert talk["messages"] == [question, {"role": "assistant", "content": pair["target"]}]
        assert prompt["prompt"] == [question] and prompt["answer"] == pair["target"]
        assert {pair["size"], talk["size"], prompt["size"]} == {pair["size"]}
        assert not FormSpec.parse("conversations").find_fault(talk) and not FormSpec.parse("prompts").find_fault(prompt)
