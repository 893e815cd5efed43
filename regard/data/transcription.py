"""Conversations as others write them down: which columns of a table hold them, and how cells become messages.

Known are lists of messages with role and content, or with from and value (ShareGPT), a question beside its answer,
preferences with both answers or with two whole conversations that begin alike, and texts in which `Human:` and
`Assistant:` begin the turns (Bai et al. 2022). What can't be read so is `Unusable`, and says why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from regard.data.dialogue import ASSISTANT, ROLES, SYSTEM, USER, Message, say
from regard.data.log import Unusable
from regard.data.reader import Key
from regard.data.sample import Form, Sample

Cells = Mapping[str, Any]  # of a row, by what they are for
# whom others mean by their names
SPEAKERS = {role: role for role in ROLES} | {
    "human": USER,
    "prompter": USER,
    "gpt": ASSISTANT,
    "chatgpt": ASSISTANT,
    "bot": ASSISTANT,
    "model": ASSISTANT,
}
# what columns are usually called, the likeliest first
USUAL = {
    "messages": "messages conversations conversation dialogue dialog",
    "prompt": "prompt instruction question query",
    "answer": "answer response completion output reply",
    "chosen": "chosen",
    "rejected": "rejected",
    "margin": "margin",
    "unfinished": "unfinished",
    "system": "system",
    "context": "input",
}
TURN = re.compile(r"(?:^|\n\n)(Human|Assistant):")


def find_columns(form: Form, names: Sequence[str], told: Mapping[str, Key]) -> dict[str, Key]:
    """Which columns hold the parts of a conversation, by their names; nothing where that isn't clear.

    `told`: those that somebody has named.
    """
    # a cell that holds an object has a name as well as the cells within it: `chosen`, `chosen.value`
    known = {*names, *(name.partition(".")[0] for name in names)}
    found: dict[str, Key] = {}
    for part, usual in USUAL.items():
        if (name := next((name for name in usual.split() if name in known), None)) is not None:
            found[part] = name
    found |= told
    asked = "prompt" if "prompt" in told or ("prompt" in found and "messages" not in told) else "messages"
    if form == "conversations" and "messages" in found and not {"prompt", "answer"} & told.keys():
        asked = "messages"  # where whole conversations stand beside questions, they are more
    needed = {
        "conversations": ("messages",) if asked == "messages" else ("prompt", "answer"),
        "prompts": (asked,),
        "preferences": ("chosen", "rejected"),
    }[form]
    if not all(part in found for part in needed):
        return {}
    also = {"conversations": (), "prompts": ("answer",), "preferences": (asked, "margin", "unfinished")}[form]
    # Alpaca's `input` is what an `instruction` speaks of; elsewhere the word may mean anything
    with_context = "context" in told or (asked == "prompt" and found["prompt"] == "instruction")
    wanted = (*needed, *also, "system", *(("context",) if with_context else ()))
    return {part: found[part] for part in wanted if part in found}


def number_columns(form: Form) -> dict[str, Key]:
    """Which columns hold the parts of a conversation where they have no names."""
    parts = {"conversations": ("prompt", "answer"), "prompts": ("prompt",)}.get(form, ("prompt", "chosen", "rejected"))
    return {part: number for number, part in enumerate(parts)}


def describe_columns(form: Form) -> str:
    """The columns that a form is looked for in, in words."""
    return {"conversations": "messages, or prompt and answer", "prompts": "prompt"}.get(form, "chosen and rejected")


def transcribe(cells: Cells, form: Form) -> Sample:
    """A row as a sample of a form."""
    if form == "conversations":
        return _transcribe_conversation(cells)
    return _transcribe_prompt(cells) if form == "prompts" else _transcribe_preference(cells)


def _transcribe_conversation(cells: Cells) -> Sample:
    messages = read_prompt(cells)
    if "messages" not in cells:
        messages.append(say(ASSISTANT, read_text(cells["answer"], "answer")))
    check_messages(messages)
    if all(message["role"] != ASSISTANT for message in messages):
        raise Unusable("no assistant turn")
    return {"messages": messages}


def _transcribe_prompt(cells: Cells) -> Sample:
    prompt, answer = read_prompt(cells), cells.get("answer")  # which a row may be without
    if prompt and prompt[-1]["role"] == ASSISTANT:
        *prompt, last = prompt
        answer = last["content"]  # what was said there is what would be right
    check_messages(prompt)
    return {"prompt": prompt, **({} if answer in (None, "") else {"answer": read_text(answer, "answer", loose=True)})}


def _transcribe_preference(cells: Cells) -> Sample:
    prompt = read_prompt(cells)
    chosen, rejected = (read_messages(cells[part], part, ASSISTANT) for part in ("chosen", "rejected"))
    if prompt and chosen[: len(prompt)] == prompt == rejected[: len(prompt)]:
        chosen, rejected = chosen[len(prompt) :], rejected[len(prompt) :]  # the answers tell it again
    shared = count_shared(chosen, rejected)
    if shared and any(message["role"] != SYSTEM for message in prompt):
        raise Unusable("chosen and rejected don't begin with their prompt")
    prompt = [*prompt, *chosen[:shared]]
    answers = [_take_answer(rest[shared:], part) for part, rest in (("chosen", chosen), ("rejected", rejected))]
    if not prompt:
        raise Unusable("chosen and rejected share no prompt")
    check_messages(prompt)
    if answers[0] == answers[1]:
        raise Unusable("chosen and rejected are equal")
    beside = _read_margin(cells.get("margin")) | _read_unfinished(cells.get("unfinished"))
    return {"prompt": prompt, "chosen": answers[0], "rejected": answers[1], **beside}


def _take_answer(rest: Sequence[Message], part: str) -> str:
    """The text of an answer that is all that is left of a conversation."""
    if not rest:
        raise Unusable(f"no answer: {part} ends where the prompt does")
    if len(rest) > 1:
        raise Unusable("chosen and rejected part before their last answers")
    if rest[0]["role"] != ASSISTANT:
        raise Unusable(f"no answer: {part} ends with what the {rest[0]['role']} says")
    if not rest[0]["content"].strip():
        raise Unusable(f"empty answer: {part}")
    return rest[0]["content"]


def _read_margin(value: Any) -> dict[str, float]:
    if value is None:
        return {}
    try:
        margin = float(value)
    except (TypeError, ValueError):
        raise Unusable(f"margin isn't a number: {value!r}") from None
    if not np.isfinite(margin):
        raise Unusable(f"margin isn't finite: {value!r}")
    return {"margin": margin}


def _read_unfinished(value: Any) -> dict[str, list[str]]:
    names = [] if value is None else list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    strange = next((name for name in names if name not in ("chosen", "rejected")), None)
    if strange is not None:
        raise Unusable(f"unfinished is neither chosen nor rejected: {strange!r:.40}")
    return {"unfinished": [str(name) for name in names]} if names else {}


def count_shared(one: Sequence[Message], other: Sequence[Message]) -> int:
    """How many messages two conversations have in common at their beginning; each keeps its last one."""
    most = min(len(one), len(other)) - 1
    return next((n for n in range(most) if one[n] != other[n]), max(most, 0))


def read_prompt(cells: Cells) -> list[Message]:
    """The messages before an answer: those of a prompt or of a conversation, behind what the system says."""
    part = next((part for part in ("messages", "prompt") if cells.get(part) is not None), None)
    messages = [] if part is None else read_messages(cells[part], part, USER)
    if messages and messages[-1] == say(ASSISTANT, "") and isinstance(cells[str(part)], str):
        messages = messages[:-1]  # a text in turns may end where the answer would begin
    if messages and cells.get("context"):
        last = messages.pop()
        messages.append(say(last["role"], f"{last['content']}\n\n{read_text(cells['context'], 'context')}"))
    return [say(SYSTEM, read_text(cells["system"], "system")), *messages] if cells.get("system") else messages


def read_messages(value: Any, part: str, role: str) -> list[Message]:
    """Messages, from whatever may stand for them; `role`: whose a plain text is."""
    if isinstance(value, Mapping):
        return [read_message(value)]
    if isinstance(value, list | tuple | np.ndarray) and len(value):
        return list(drop_empty(map(read_message, value)))
    text = read_text(value, part)
    return cut_turns(text) if TURN.match(text.lstrip(" ")) and "\n\nAssistant:" in text else [say(role, text)]


def read_message(value: Any) -> Message:
    """A message, as one of the known layouts has it."""
    if not isinstance(value, Mapping):
        raise Unusable(f"a message that isn't an object: {value!r:.40}")
    names = ("role", "content") if "role" in value else ("from", "value")
    if missing := next((name for name in names if name not in value), None):
        raise Unusable(f"a message without {missing}")
    role, content = (value[name] for name in names)
    speaker = SPEAKERS.get(role.strip().lower()) if isinstance(role, str) else None
    if speaker is None:
        raise Unusable(f"a role that isn't known: {role!r:.40}, and {', '.join(SPEAKERS)} are")
    if not isinstance(content, str):
        raise Unusable(f"a content that isn't text: {content!r:.40}")
    return say(speaker, content)


def drop_empty(messages: Iterator[Message]) -> Iterator[Message]:
    """Messages without those of a system that says nothing, as some tables have in every row."""
    return (message for message in messages if message["role"] != SYSTEM or message["content"].strip())


def cut_turns(text: str) -> list[Message]:
    """A text in which names and colons begin the turns."""
    before, *turns = TURN.split(text)
    if before.strip():
        raise Unusable("text before the first turn")
    pairs = zip(turns[::2], turns[1::2], strict=True)
    return [say(SPEAKERS[name.lower()], content.strip()) for name, content in pairs]


def read_text(value: Any, part: str, loose: bool = False) -> str:
    """A cell's text; `loose`: a number will do."""
    value = value.item() if isinstance(value, np.generic) else value
    if loose and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise Unusable(f"no text: {part}")
    return value


def change_texts(sample: Sample, change: Callable[[str], str]) -> Sample:
    """A sample with all of its texts changed."""

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, list):
            return [walk(part) for part in value]
        return say(value["role"], change(value["content"])) if isinstance(value, dict) else value

    return {name: walk(value) for name, value in sample.items()}


def check_messages(messages: Sequence[Message]) -> None:
    """Refuse a message that says nothing."""
    if not messages:
        raise Unusable("no messages")
    for message in messages:
        if not message["content"].strip():
            raise Unusable(f"empty {'answer' if message['role'] == ASSISTANT else 'message'}: the {message['role']}'s")
