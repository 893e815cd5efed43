"""Comparisons of runs: every task that can be, what is refused, what is left out, and that verdicts are right."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import CheckpointError, InputError, RegardError
from regard.runs.breakdown import divide_by_frequency, group_sizes, name_decade
from regard.runs.compare import compare, doubt_pairs
from regard.runs.comparison import COSTS, RunComparison, RunPair
from regard.runs.evaluate import TestSet, evaluate
from regard.tasks.bleu import compare_texts, score_texts
from regard.tasks.example import Example
from regard.tasks.passage import LETTERS, cut_passages
from regard.tasks.scores import SampleScores, match_words, score_labels
from regard.tasks.significance import PairedDifference, Statistic, randomise

SMALL = {"width": 16, "depth": 1, "heads": 2}
FIRST = {"kind": "en-fr", "train": 80, "validation": 12, "test": 60, "level": "first"}
HALVES = Path(__file__).parent.parent / "fixtures/pictures/halves.npz"
RUNS: dict[str, dict[str, Any]] = {
    "translation": {"task": "translation", "corpus": FIRST, "model": {"kind": "transformer-tiny", **SMALL}},
    "language": {
        "task": {"kind": "language", "context": 32},
        "corpus": FIRST,
        "model": {"kind": "decoder-tiny", **SMALL},
    },
    "classification": {
        "task": "classification",
        "corpus": {**FIRST, "kind": "grammaticality"},
        "model": {"kind": "bert-tiny", **SMALL},
    },
    "tagging": {"task": "tagging", "corpus": FIRST, "model": {"kind": "bert-tiny", **SMALL}},
    "algorithm": {
        "task": "algorithm",
        "corpus": {"kind": "copy", "train": 60, "validation": 8, "test": 30, "sizes": [1, 4]},
        "tokenizer": {"pieces": "given"},
        "model": {"kind": "decoder-tiny", **SMALL},
    },
    "regression": {
        "task": "regression",
        "corpus": {"kind": "adding", "train": 60, "validation": 8, "test": 40, "sizes": [4, 9]},
        "model": {"kind": "gru", "width": 8, "depth": 1},
    },
    "images": {
        "task": "images",
        "corpus": {"kind": "files", "train": str(HALVES), "split": {"validation": 0.3}},
        "model": {"kind": "vit-tiny", **SMALL},
        "batches": {"rows": 16},
    },
    "embedding": {"task": "embedding", "corpus": FIRST, "model": {"kind": "bert-tiny", **SMALL}},
    "pixels": {
        "task": {"kind": "pixels", "binarise": "threshold"},
        "corpus": {"kind": "files", "train": str(HALVES), "split": {"validation": 0.2}},
        "model": {"kind": "pixelcnn", "width": 8, "depth": 1},
        "batches": {"rows": 16},
    },
    "masking": {
        "task": {"kind": "masking", "context": 32},
        "corpus": FIRST,
        "model": {"kind": "bert-tiny", **SMALL},
    },
}
RUNS["captioning"] = {
    "task": {"kind": "captioning", "validation": 8},
    "corpus": {"kind": "scenes", "train": 64, "validation": 12, "test": 24, "size": 48},
    "tokenizer": {"pieces": "word"},
    "batches": {"rows": 16},
    "model": {"kind": "show-attend-tell", "width": 8, "convolutions": 3},
}
MEASURED = {
    "captioning": {"bleu4", "cider", "exact", "loss"},
    "masking": {"loss", "accuracy"},
    "translation": {"bleu", "chrf", "exact", "loss"},
    "algorithm": {"exact", "loss"},
    "regression": {"error"},
    "embedding": {"found", "reciprocal_rank"},
    "pixels": {"nats", "bits"},
}


def train(folder: Path, task: str, name: str, /, steps: int = 2, **changes: Any) -> str:
    """A small run."""
    usual = {"tokenizer": {"vocabulary": 200}, "batches": {"tokens": 256}, "train": {"steps": steps}, "device": "cpu"}
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps({**usual, **RUNS[task], **changes, "out": str(folder / name)}))
    regard.fit(file)
    return str(folder / name)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compared")


@pytest.fixture(scope="module")
def language(place: Path) -> list[str]:
    """A language model that has hardly begun, and one that has learned something."""
    return [train(place, "language", "short"), train(place, "language", "long", steps=60)]


@pytest.mark.parametrize("task", [task for task in RUNS if task != "language"])
def test_runs_of_a_task_are_compared_by_what_eval_measures(task: str, place: Path) -> None:
    nouns = [train(place, task, f"{task}-{seed}", seed=seed) for seed in (1, 2)]
    found = compare(nouns)
    assert found.labels == [f"{task}-1", f"{task}-2"]
    for n, noun in enumerate(nouns):
        measured = evaluate([noun], TestSet(), {}).measures
        for name, values in found.measures.items():
            assert values[n].low <= values[n].value <= values[n].high
            if name in measured:  # classification's loss is of comparisons alone
                assert values[n].value == pytest.approx(measured[name], rel=1e-6, abs=1e-9)
    assert set(found.measures) >= MEASURED.get(task, {"accuracy", "macro_f1"})
    assert {pair.verdict for pair in found.pairs} == {"no difference shown"}  # two seeds of one recipe
    assert {pair.doubt for pair in found.pairs} == {"one recipe with two seeds"}
    assert all({"parameters", "training speed", "answering"} <= costs.keys() <= COSTS.keys() for costs in found.costs)
    told = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert len(told["runs"]) == 2 and told["pairs"] and told["data"] in ("test", "validation")
    assert found.page().startswith("<!doctype html>")


def test_a_model_that_learned_is_shown_to_be_better(language: list[str]) -> None:
    found = compare(language)
    pairs = {pair.measure: pair for pair in found.pairs}
    assert pairs["loss"].holm < 0.001 and pairs["loss"].difference.bootstrap < 0.001
    assert pairs["loss"].difference.low > 0  # the first one's loss is higher
    assert pairs["bits_per_byte"].verdict == "long is better"
    measured = evaluate([language[1]], TestSet(), {}).measures
    for name in ("loss", "bits_per_byte"):
        assert found.measures[name][1].value == pytest.approx(measured[name], rel=1e-6)
    assert found.by_frequency[0].measure == "bits of a word"
    assert found.costs[0]["state of a token"] > 0
    assert found.costs[0]["state at 1,000 tokens"] == pytest.approx(1000 * found.costs[0]["state of a token"])


def test_texts_have_their_parts_by_length_and_by_frequency(place: Path) -> None:
    first = place / "translation-1"
    nouns = [str(first) if first.is_dir() else train(place, "translation", "translation-1", seed=1)]
    nouns.append(train(place, "translation", "translation-3", seed=3, model={"kind": "luong", "width": 16}))
    found = compare(nouns)
    assert found.by_length[0].by == "words of the source" and sum(found.by_length[0].counts) == found.samples
    assert found.by_frequency[0].by == "how often words are in training"
    assert set(found.signatures) == {"bleu", "chrf"} and "ar:10000" in found.signatures["bleu"]
    assert not any(pair.doubt for pair in found.pairs)
    assert found.main == "bleu" and found.costs[0]["writing"] > 0


def test_runs_of_other_tokens_are_compared_by_text_or_not_at_all(language: list[str], place: Path) -> None:
    other = train(place, "language", "other-tokens", tokenizer={"vocabulary": 300})
    with pytest.raises(InputError, match="short and other-tokens have different target tokens, and loss") as caught:
        compare([language[0], other])
    assert "--by-text compares bits_per_byte alone" in str(caught.value.hint)
    found = compare([language[0], other], by_text=True)
    assert list(found.measures) == ["bits_per_byte"]  # bytes are the same, whatever the tokens
    assert any("loss: left out" in note for note in found.notes)


def test_what_cannot_be_compared_is_refused_with_a_way_out(language: list[str], place: Path, tmp_path: Path) -> None:
    def refuse(nouns: list[str], words: str, kind: type[RegardError] = InputError, **settings: Any) -> None:
        with pytest.raises(kind, match=words) as caught:
            compare(nouns, **settings)
        assert caught.value.hint

    refuse(language[:1], "two runs at least")
    refuse([language[0], f"{place}/./short"], "this run is there twice")
    refuse([language[0], str(tmp_path)], "not a run", CheckpointError)
    refuse([language[0], str(place)], "not a run, but there are", CheckpointError)
    masked = train(place, "masking", "masked")
    refuse([language[0], masked], "different tasks.*short learned language, masked learned masking")
    fewer = train(place, "masking", "masked-less", task={"kind": "masking", "context": 32, "share": 0.1})
    refuse([masked, fewer], "masked and masked-less have different target tokens, and loss, accuracy is counted")
    drawn = [train(place, "pixels", f"levels-{n}", task={"kind": "pixels", "levels": n}) for n in (4, 8)]
    refuse(drawn, "levels-4 and levels-8 have different target tokens, and nats, bits is counted a token")
    refuse(drawn, "nats, bits is counted a token, and all that is measured", by_text=True)
    others = train(place, "language", "other-test", corpus={**FIRST, "test": 20})
    refuse([language[0], others], "short and other-test kept different samples for test")
    refuse(language, "which", data=["test.txt"], split="test")
    with pytest.raises(InputError, match="two runs at least"):
        compare(language[0])


def test_files_are_a_test_set_for_runs_that_kept_others(language: list[str], place: Path, tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    file.write_text('{"text": "The cat sleeps."}\n{"text": "The dog sings and the cat sees it."}\n')
    found = compare([language[0], train(place, "language", "else", corpus={**FIRST, "test": 21})], [str(file)])
    assert found.data == "some.jsonl" and found.samples == 2
    assert any("only 2 samples" in note for note in found.notes)
    file.write_text('{"text": "The cat sleeps."}\n')
    with pytest.raises(InputError, match="one sample"):
        compare(language, [str(file)])


def test_seeds_are_a_yardstick_for_other_pairs() -> None:
    def pair(one: str, other: str, value: float) -> RunPair:
        return RunPair("bleu", one, other, True, PairedDifference(value, 0, 0, 0.001, 0.001), 0.001)

    pairs = [pair("a", "b", 1.0), pair("a", "c", 0.8), pair("b", "c", -3.0)]
    assert [one.verdict for one in pairs] == ["a is better", "a is better", "c is better"]
    found, notes = doubt_pairs(pairs, {("a", "b")})
    assert [one.verdict for one in found] == ["no difference shown", "no difference shown", "c is better"]
    assert len(notes) == 2 and "bleu p 0.001" in notes[0]
    assert replace(found[2], holm=0.2).verdict == "no difference shown"


def test_sacrebleu_tests_agree_with_ours() -> None:
    chance = np.random.default_rng(0)
    words = ["le", "chat", "dort", "mange", "un", "chien", "noir", "petit"]
    references = [" ".join(chance.choice(words, 8)) for _ in range(80)]

    def spoil(share: float) -> list[str]:
        return [
            " ".join(str(chance.choice(words)) if chance.random() < share else word for word in text.split())
            for text in references
        ]

    answers = [spoil(0.3), spoil(0.34), spoil(0.8)]
    tests, signatures = compare_texts(answers, references)
    own = [score_texts(texts, references) for texts in answers]
    for (name, one, other), test in tests.items():
        assert test.randomisation == pytest.approx(randomise(own[one][name], own[other][name]), abs=0.02)
    assert tests["bleu", 0, 2].randomisation < 0.001 and tests["chrf", 1, 2].bootstrap < 0.001
    assert signatures["chrf"].startswith("nrefs:1|bs:1000|ar:10000|seed:12345")


def test_labels_are_scored_as_they_are_measured() -> None:
    gold, guesses = [("a", "b"), ("a",), ("c",)], [("a", "a"), ("a",), ("b",)]
    found = score_labels(gold, guesses, ["a", "b", "c"])
    assert found["accuracy"].total() == 0.5
    assert found["macro_f1"].total() == pytest.approx((2 * 2 / 5 + 0 + 0) / 3)
    assert score_labels(gold, guesses, ["c", "b", "a"])["macro_f1"].rows.tolist() == found["macro_f1"].rows.tolist()


def test_words_are_grouped_by_how_often_training_saw_them() -> None:
    def score(answers: list[str]) -> SampleScores:
        references = ["le chat noir dort", "le chien dort"]
        portions = {"words": match_words(answers, references)}
        examples = [Example((), (), (text,)) for text in answers]
        statistic = Statistic.mean([1.0, 1.0], rising=True)
        return SampleScores({"exact": statistic}, examples, telling="exact", seconds=1, portions=portions)

    runs = [score(["le chat noir dort", "le chien dort"]), score(["le chat dort", "le chat dort"])]
    counts = {"le": 5000, "dort": 200, "chat": 30, "chien": 30, **dict.fromkeys("abcdefghij", 1)}
    found = divide_by_frequency("words", runs, counts)
    assert found is not None and found.groups == ["noir (0)", "chat (30)", "chien (30)", "dort (200)", "le (5,000)"]
    assert [row[0].value for row in found.values if row[0] is not None] == [1.0] * 5
    assert [row[1] and round(row[1].value, 3) for row in found.values] == [0, round(2 / 3, 3), 0, 1, 1]
    assert found.counts == [1, 1, 1, 2, 2]
    assert [name_decade(count) for count in (0, 1, 9, 10, 999, 10_000, 10**7)] == [
        *("never", "1 to 9", "1 to 9", "10 to 99", "100 to 999", "10,000 or more", "10,000 or more")
    ]


def test_lengths_are_grouped_by_quarters_of_the_samples() -> None:
    assert group_sizes(np.array([3.0, 1.0, 3.0])) == {"1": [1], "3": [0, 2]}
    found = group_sizes(np.arange(1.0, 101))
    assert [len(rows) for rows in found.values()] == pytest.approx([25] * 4, abs=1)
    assert sorted(n for rows in found.values() for n in rows) == list(range(100))
    assert group_sizes(np.array([])) == {}


def test_passages_are_cut_by_letters_between_words() -> None:
    text = "word " * 300
    bounds = cut_passages(text)
    assert bounds[0] == 0 and bounds[-1] == len(text)
    assert all(text[place] == " " for place in bounds[1:-1]) and max(np.diff(bounds)) <= LETTERS
    assert cut_passages("") == [0, 1] and cut_passages("x" * 1200) == [0, 500, 1000, 1200]


def test_the_value_is_plain_data(language: list[str]) -> None:
    found: RunComparison = regard.compare(language)
    told = found.as_json()
    assert told["rising"] == {"bits_per_byte": False, "loss": False}
    assert told["examples"] and len(told["examples"][0]["answers"]) == 2
