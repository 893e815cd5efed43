"""Run files that are written to start from: each trains as it is."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from regard.config import read
from regard.core.setting import explain_setting
from regard.errors import InputError, SpecError
from regard.runs.commented import write_commented
from regard.runs.draft import BUILT_IN, MODELS, draft
from regard.runs.look import list_tasks
from regard.runs.sizing import GIGABYTE, Amount, Machine, choose_sizes
from regard.runs.spec import RunSpec
from regard.runs.train import train
from regard.train.spec import TrainSpec

CHANCE = Random(7)
NOUNS, VERBS = ["cat", "dog", "bird", "house", "tree", "film", "book"], ["sees", "likes", "finds", "hears"]
SENTENCES = [
    f"the {CHANCE.choice(NOUNS)} {CHANCE.choice(VERBS)} a {CHANCE.choice(NOUNS)} in {n} days" for n in range(60)
]
MIRRORED = [" ".join(reversed(sentence.split())) for sentence in SENTENCES]
LABELS = [("good", "bad")[n % 2] for n in range(60)]
TAGGED = "\n\n".join(
    "\n".join(f"{word}\t{'NOUN' if word in NOUNS else 'VERB' if word in VERBS else 'X'}" for word in sentence.split())
    for sentence in SENTENCES
)
FILES: dict[str, tuple[str, str | None]] = {
    "labels.csv": ("review,stars\n" + "\n".join(map(",".join, zip(SENTENCES, LABELS, strict=True))), None),
    "labels.tsv": ("\n".join(map("\t".join, zip(LABELS, SENTENCES, strict=True))), None),
    "pairs.tsv": ("\n".join(map("\t".join, zip(SENTENCES, MIRRORED, strict=True))), None),
    "pairs.jsonl": (
        "\n".join(json.dumps({"en": one, "fr": two}) for one, two in zip(SENTENCES, MIRRORED, strict=True)),
        "embedding",
    ),
    "book.txt": ("\n".join(SENTENCES), None),
    "lines.csv": ("text\n" + "\n".join(SENTENCES), "masking"),
    "tags.txt": (TAGGED, None),
    "steps.tsv": ("\n".join(map("\t".join, zip(SENTENCES, MIRRORED, strict=True))), "algorithm"),
}
TASKS = {"labels": "classification", "pairs": "translation", "book": "language", "tags": "tagging"}
FEW = ["train.steps=2", "train.evaluate=2", "train.save=2", "device=cpu"]


def run_file(folder: Path, text: str, *words: str) -> Any:
    """Train a written file for two steps."""
    (folder / "run.yaml").write_text(text)
    return train(read(folder / "run.yaml").change([*FEW, f"out={folder}/run", *words]))


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_written_for_files_trains_as_it_is(tmp_path: Path, name: str) -> None:
    content, task = FILES[name]
    (tmp_path / name).write_text(content)
    made = draft(task, [str(tmp_path / name)])
    assert made.task == (task or TASKS[name.partition(".")[0]])
    assert run_file(tmp_path, made.text).report.moment.step == 2


@pytest.mark.parametrize("task", sorted(MODELS))
def test_a_file_without_data_has_a_corpus_that_is_built_in(tmp_path: Path, task: str) -> None:
    made = draft(task)
    assert yaml.safe_load(made.text) == json.loads(json.dumps(made.tree))
    small = ["corpus.most=3"] if task == "language" else ["corpus.train=80", "corpus.validation=4", "corpus.test=4"]
    assert run_file(tmp_path, made.text, *small).report.moment.step == 2


def test_every_task_has_a_model_and_a_corpus_to_start_with() -> None:
    assert set(MODELS) == set(BUILT_IN) == set(list_tasks())


def test_what_was_doubtful_is_settled_and_told(tmp_path: Path) -> None:
    """No name here says what it is, so that only reading finds the header."""
    rows = "\n".join(f"{sentence}\t{label}" for sentence, label in zip(SENTENCES, LABELS, strict=True))
    (tmp_path / "a.tsv").write_text(f"avis\tnote\n{rows}\n")
    made = draft(None, [str(tmp_path / "a.tsv")])
    assert made.tree["corpus"]["train"]["header"] is True
    assert "is it a header?; taken so: leave the line out" in " ".join(made.text.replace("# ", "").split())
    assert run_file(tmp_path, made.text).report.moment.step == 2


def test_what_is_told_of_the_reader_goes_before_guesses(tmp_path: Path) -> None:
    rows = "\n".join(map("\t".join, zip(SENTENCES, MIRRORED, strict=True)))
    (tmp_path / "a.tsv").write_text(rows)
    made = draft("translation", [str(tmp_path / "a.tsv")], {"source": 1, "target": 0})
    assert made.tree["corpus"]["train"]["source"] == 1


def test_mistakes_are_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no task is called 'poetry'"):
        draft("poetry")
    (tmp_path / "a.tsv").write_text("a\t \n" * 5)
    with pytest.raises(InputError, match="no sample can be used"):
        draft("translation", [str(tmp_path / "a.tsv")])


SMALL = Machine(2, 8 * GIGABYTE)


def test_more_data_gets_a_larger_model_and_fewer_passes() -> None:
    amounts = [Amount(words // 10, words, words // 20, 40) for words in (10**4, 10**6, 10**7, 10**9)]
    sizes = [choose_sizes(amount, SMALL) for amount in amounts]
    assert [one.width for one in sizes] == sorted(one.width for one in sizes)
    assert [one.passes for one in sizes] == sorted((one.passes for one in sizes), reverse=True)
    assert [one.minutes for one in sizes] == sorted(one.minutes for one in sizes) and sizes[-1].minutes == 120
    assert sizes[0].vocabulary < sizes[1].vocabulary == 8000


def test_a_better_machine_gets_a_larger_model_and_less_time() -> None:
    amount = Amount(10**5, 10**6, 10**4, 40)
    plain, strong = (choose_sizes(amount, machine) for machine in (SMALL, Machine(2, 8 * GIGABYTE, gpu=True)))
    assert plain.width < strong.width and plain.minutes >= strong.minutes
    assert choose_sizes(amount, Machine(2, 2 * GIGABYTE)).batch < plain.batch


def test_a_batch_has_room_for_the_longest_sample() -> None:
    for longest in (3, 100, 900, 10**6):
        sizes = choose_sizes(Amount(100, 10**4, 100, longest), SMALL)
        assert min(longest, 1024) <= sizes.longest <= 1024 and sizes.batch >= 2 * sizes.longest


def test_comments_say_what_a_setting_means_and_why_it_is_so() -> None:
    tree = {"train": {"steps": 3, "optimizer": {"kind": "adamw", "rate": 0.1}}, "out": "no: # 1"}
    text = write_commented(tree, {"train.steps": "few", "train": "why " * 40}, ["First."], RunSpec)
    assert yaml.safe_load(text) == tree
    assert text.startswith("# First.\n")
    assert f"{explain_setting(TrainSpec, 'steps').rstrip('.')}. Here: few\n" in text
    assert all(len(line) <= 100 for line in text.splitlines())
