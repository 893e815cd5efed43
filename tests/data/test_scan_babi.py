"""Readers of SCAN's commands and of bAbI's stories: what they make of lines, and which they refuse, with the place."""

from __future__ import annotations

from pathlib import Path

from regard.data.log import Log
from regard.data.readers.babi import Babi
from regard.data.readers.scan import Commands

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
