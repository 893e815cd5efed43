"""The verb that scores: answers in, rewards out in the same order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.cli.arguments import JSON, PRECISION, RUN, verb
from regard.cli.texts import FILE, TEXTS, GivenText, Manner, answer_texts, choose_source
from regard.errors import InputError
from regard.host.machine import give_way

if TYPE_CHECKING:
    from regard.tasks.reward import Judge

LAYOUT = '{"prompt": "…", "answer": "…"}'


@verb("Ask a model")
@give_way()
def score(
    run: RUN, texts: TEXTS = None, files: FILE = None, precision: PRECISION = None, as_json: JSON = False
) -> None:
    """Give the rewards of answers, in their order.

    A line is an answer, or a prompt, a tab and its answer. Or it is JSON as corpora have it: {"prompt": …,
    "answer": …}, with a text or a list of messages as the prompt; {"prompt": …, "chosen": …, "rejected": …} for two
    rewards; {"messages": […]}, of which the last one is the answer.
    """
    source = choose_source(texts, files)
    from regard.runs.load import load_as
    from regard.tasks.reward import Judge

    judge = load_as(run, Judge, "only one that learned rewards scores", precision)

    def ask(lines: list[str]) -> list[ScoredLine]:
        return score_lines(judge, lines)

    def show(text: GivenText, found: ScoredLine) -> None:
        if as_json:
            print(json.dumps({"text": text.text, **found.describe()}, ensure_ascii=False))
        else:
            print("\t".join((*(f"{reward:.4f}" for reward in found.rewards), text.text)))

    answer_texts(source, "scoring", ask, show, Manner(as_json, "text", {"reward": None}))


@dataclass
class JudgedLine:
    """A line as prompts and answers: one of each, or the two answers of a pair."""

    prompt: Any  # a text or messages
    answers: list[str]


@dataclass
class ScoredLine:
    """The rewards of a line's answers."""

    rewards: list[float]

    def describe(self) -> dict[str, float]:
        """As plain data."""
        if len(self.rewards) == 1:
            return {"reward": self.rewards[0]}
        chosen, rejected = self.rewards
        return {"chosen": chosen, "rejected": rejected, "margin": chosen - rejected}


def score_lines(judge: Judge, lines: Sequence[str]) -> list[ScoredLine]:
    """The rewards of lines, all answers together, so that those of like length share a batch."""
    read = [read_line(line) for line in lines]
    prompts = [line.prompt for line in read for _ in line.answers]
    rewards = iter(judge.score_all(prompts, [answer for line in read for answer in line.answers]))
    return [ScoredLine([next(rewards) for _ in line.answers]) for line in read]


def read_line(line: str) -> JudgedLine:
    """What a line asks about: JSON where it is an object, else a text."""
    if line.lstrip().startswith("{"):
        try:
            cells = json.loads(line)
        except (ValueError, RecursionError):
            cells = None  # an answer may begin with a brace
        if isinstance(cells, dict):
            return read_cells(cells)
    prompt, tab, answer = line.partition("\t")
    return JudgedLine(prompt, [answer]) if tab else JudgedLine("", [line])


def read_cells(cells: dict[str, Any]) -> JudgedLine:
    """An object in any layout that readers of conversations and preferences know."""
    from regard.data.dialogue import ASSISTANT
    from regard.data.log import Unusable
    from regard.data.transcription import find_columns, transcribe

    for form in ("preferences", "conversations"):
        columns = find_columns(form, list(cells), {})
        if not columns:
            continue
        try:
            sample = transcribe({part: cells[str(name)] for part, name in columns.items()}, form)
        except Unusable as error:
            raise InputError(error.message, LAYOUT) from None
        if form == "preferences":
            return JudgedLine(sample["prompt"], [sample["chosen"], sample["rejected"]])
        *prompt, last = sample["messages"]
        if last["role"] != ASSISTANT:
            raise InputError("messages: the last one must be the assistant's, which is scored", LAYOUT)
        return JudgedLine(prompt, [last["content"]])
    if isinstance(cells.get("answer"), str):
        return JudgedLine("", [cells["answer"]])
    raise InputError(f"nothing to score in fields {', '.join(cells) or 'of which there are none'}", LAYOUT)
