"""Readers of SCAN's commands and of bAbI's stories: what they make of lines, and which they refuse, with the place."""

from __future__ import annotations

from pathlib import Path

from regard.data.corpora.files import Files
from regard.data.corpus import CorpusSpec
from regard.data.log import Log
from regard.data.preparation import prepare
from regard.data.readers.babi import Babi
from regard.data.readers.scan import Commands
from regard.data.tokenizer import TokenizerSpec
from regard.tasks.task import TaskSpec

STORIES = """1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Mary went to the office.
5 Where is Mary? \toffice\t4
1 Sandra is in the garden.
2 What is Sandra carrying? \tapple,milk\t1
nonsense
3 Where is Sandra? \tgarden\t1
1 Daniel is in the kitchen.
2 Where is Daniel? \tkitchen\t1
"""


def test_a_command_and_its_actions_are_a_pair(tmp_path: Path) -> None:
    file = tmp_path / "commands.txt"
    file.write_text("IN: jump twice OUT: I_JUMP I_JUMP\nIN: jump\nIN: walk OUT: I_WALK\n")
    log = Log()
    found = list(Commands(path=str(file)).samples(log))
    assert [(sample["source"], sample["target"]) for sample in found] == [
        ("jump twice", "I_JUMP I_JUMP"),
        ("walk", "I_WALK"),
    ]
    assert (log.kept, log.skipped) == (2, 1)
    assert log.faults["train"]["not a command and its actions"].places == [f"{file}:2"]


def test_commands_that_stand_in_another_file_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "simple.txt").write_text(
        "IN: jump OUT: I_JUMP\nIN: jump twice OUT: I_JUMP I_JUMP\nIN: run OUT: I_RUN\n"
    )
    (tmp_path / "jump.txt").write_text("IN: jump  OUT: I_JUMP\nnonsense\nIN: run OUT: I_RUN\n")
    log = Log(policy="stop")
    reader = Commands(path="simple.txt", without="jump.txt").under(tmp_path)
    assert [sample["source"] for sample in reader.samples(log)] == ["jump twice"]
    assert (log.kept, log.skipped) == (1, 0)
    assert log.notes == [f"train: 2 commands are left out, which stand in {tmp_path / 'jump.txt'} too"]


def test_a_question_is_read_with_the_sentences_before_it(tmp_path: Path) -> None:
    file = tmp_path / "qa1.txt"
    file.write_text(STORIES)
    log = Log()
    one, two, three, four = Babi(path=str(file), sentences=2).samples(log)
    assert (one["text"], one["second"], one["label"]) == (
        "Mary moved to the bathroom. John went to the hallway.",
        "Where is Mary?",
        "bathroom",
    )
    assert two["text"] == "John went to the hallway. Mary went to the office."  # the last two, without the question
    assert (three["text"], three["label"]) == ("Sandra is in the garden.", "apple,milk")
    assert one["group"] == two["group"] != three["group"]
    assert log.faults["train"]["not a numbered sentence"].places == [f"{file}:8"]
    # what a story lost there may be what is asked for
    assert log.faults["train"]["a question behind a bad line of its story"].places == [f"{file}:9"]
    assert (four["label"], log.kept) == ("kitchen", 4)
    assert log.faults["train"]["a story of more than 2 sentences loses its first ones"].places == [f"{file}:4"]


def write_stories(folder: Path, count: int = 60) -> Path:
    """Stories of two questions each; the answer of every tenth one's first question occurs nowhere else."""
    folder.mkdir()
    for task in ("qa1", "qa2"):
        answers = [f"{task}-{n}" if n % 10 == 0 else "here" for n in range(count)]
        told = [
            f"1 {task} Mary has {n} apples.\n2 Where is Mary? \t{answer}\t1\n3 Mary ate {n}.\n4 How many? \tnone\t3\n"
            for n, answer in enumerate(answers)
        ]
        (folder / f"{task}_counting_train.txt").write_text("".join(told))
    return folder


def test_all_questions_of_a_story_stay_on_one_side_of_a_split(tmp_path: Path) -> None:
    folder = write_stories(tmp_path / "here")
    corpus = Files.parse({"train": {"kind": "babi", "path": "."}, "split": {"validation": 0.2, "test": 0.2}})
    sides: dict[str, set[str]] = {}
    for split, sample in corpus.deal("labels", folder, Log()):
        sides.setdefault(sample["text"].partition(".")[0], set()).add(split)
    assert len(sides) == 120 and {len(side) for side in sides.values()} == {1}
    assert set.union(*sides.values()) == {"train", "validation", "test"}
    # another folder has the same sides
    again = corpus.deal("labels", write_stories(tmp_path / "there"), Log())
    assert all(split in sides[sample["text"].partition(".")[0]] for split, sample in again)


def test_a_story_goes_back_to_training_as_a_whole(tmp_path: Path) -> None:
    """An answer that training lacks brings the other questions of its story along."""
    folder = write_stories(tmp_path / "here")
    corpus = {"kind": "files", "train": {"kind": "babi", "path": "."}, "split": {"validation": 0.2, "test": 0.2}}
    task = TaskSpec.parse("classification")
    ready, log = prepare(CorpusSpec.parse(corpus), task, TokenizerSpec(pieces="word"), 50, folder, tmp_path / "data")
    assert any("given back" in note for note in log.notes)
    for split in ("validation", "test"):
        stories = [sample["text"].partition(".")[0] for sample in ready.samples(split)]
        assert stories and all(stories.count(story) == 2 for story in stories)
        assert {sample["part"] for sample in ready.samples(split)} == {"qa1", "qa2"}
