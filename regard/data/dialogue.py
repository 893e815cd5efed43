"""Conversations: who says what, and the named formats in which a model reads that.

A format is data: what stands before and after the words of each role. Nothing in it is a program, and nothing that came
with a checkpoint is asked. Each piece is cut into tokens by itself, so a prompt has the same tokens whether an answer
follows or not, and what a person writes can't become a token that steers the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from regard.data.tokenizer import Tokenizer
from regard.errors import SpecError

Message = Mapping[str, str]  # role, content
SYSTEM, USER, ASSISTANT = ROLES = ("system", "user", "assistant")
FormatName = Literal["plain", "turns", "human-assistant", "alpaca", "chatml", "zephyr", "llama-3", "gemma", "phi-3"]


def say(role: str, content: str) -> dict[str, str]:
    """A message."""
    return {"role": role, "content": content}


@dataclass(frozen=True)
class Frame:
    """What stands around the words of a role."""

    before: str = ""
    after: str = ""
    lead: str = ""  # a space that is cut into tokens with the first word, as in running text


@dataclass(frozen=True)
class ChatFormat:
    """How a conversation is written down for a model."""

    name: str
    meaning: str  # what it is, or whose
    frames: Mapping[str, Frame] = field(default_factory=dict)  # by role; a role without one can't be written
    end: str = ""  # the control that ends an answer; unless given, the token that ends every text
    controls: tuple[str, ...] = ()  # words of the format that are one token each, and that no text can spell

    def frame(self, role: str) -> Frame:
        if role not in self.frames:
            raise SpecError(
                f"format {self.name}: it has no place for what the {role} says", f"format={_suggest(role, self.name)}"
            )
        return self.frames[role]


@dataclass
class Transcript:
    """A conversation in tokens, and which of them a model is to learn to say: the assistant's words and their ends."""

    tokens: list[int] = field(default_factory=list)
    learned: list[bool] = field(default_factory=list)

    def add(self, tokens: Sequence[int], learned: bool) -> None:
        self.tokens += tokens
        self.learned += [learned] * len(tokens)


def list_formats(*formats: ChatFormat) -> dict[str, ChatFormat]:
    return {form.name: form for form in formats}


FORMATS = list_formats(
    ChatFormat(
        "plain",
        "the texts themselves, with nothing between them: a prompt that is written on",
        {role: Frame() for role in ROLES},
    ),
    ChatFormat(
        "turns",
        "names and colons, a line for each",
        {
            SYSTEM: Frame("", "\n"),
            USER: Frame("User:", "\n", lead=" "),
            ASSISTANT: Frame("Assistant:", "\n", lead=" "),
        },
    ),
    ChatFormat(
        "human-assistant",
        "as in Anthropic's preferences (Bai et al. 2022)",
        {
            SYSTEM: Frame(),
            USER: Frame("\n\nHuman:", lead=" "),
            ASSISTANT: Frame("\n\nAssistant:", lead=" "),
        },
    ),
    ChatFormat(
        "alpaca",
        "an instruction and a response under headings (Taori et al. 2023)",
        {
            SYSTEM: Frame("", "\n\n"),
            USER: Frame("### Instruction:\n", "\n\n"),
            ASSISTANT: Frame("### Response:\n", "\n\n"),
        },
    ),
    ChatFormat(
        "chatml",
        "turns between two tokens of their own, as Qwen's",
        {role: Frame(f"<|im_start|>{role}\n", "\n") for role in ROLES}
        | {role: Frame(f"<|im_start|>{role}\n", "<|im_end|>\n") for role in (SYSTEM, USER)},
        end="<|im_end|>",
        controls=("<|im_start|>", "<|im_end|>"),
    ),
    ChatFormat(
        "zephyr",
        "names between signs, each turn ended as a text is (Tunstall et al. 2023)",
        {role: Frame(f"<|{role}|>\n", "\n" if role == ASSISTANT else "</s>\n") for role in ROLES},
        end="</s>",
        controls=("</s>",),
    ),
    ChatFormat(
        "llama-3",
        "names between tokens of their own, as Llama 3's",
        {
            role: Frame(f"<|start_header_id|>{role}<|end_header_id|>\n\n", "" if role == ASSISTANT else "<|eot_id|>")
            for role in ROLES
        },
        end="<|eot_id|>",
        controls=("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    ),
    ChatFormat(
        "gemma",
        "turns between two tokens of their own, without a place for a system's",
        {
            USER: Frame("<start_of_turn>user\n", "<end_of_turn>\n"),
            ASSISTANT: Frame("<start_of_turn>model\n", "\n"),
        },
        end="<end_of_turn>",
        controls=("<start_of_turn>", "<end_of_turn>"),
    ),
    ChatFormat(
        "phi-3",
        "a token for each role, and one that ends a turn",
        {role: Frame(f"<|{role}|>\n", "\n" if role == ASSISTANT else "<|end|>\n") for role in ROLES},
        end="<|end|>",
        controls=("<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
    ),
)


def find_format(name: str) -> ChatFormat:
    """A format by its name."""
    if name not in FORMATS:
        raise SpecError(f"format {name!r} isn't known", f"one of {', '.join(FORMATS)}")
    return FORMATS[name]


def spell_dialogue(messages: Sequence[Message], form: ChatFormat) -> str:
    """A conversation as running text, without the format's controls: what a tokenizer learns from."""
    text = ""
    for message in messages:
        frame = form.frame(message["role"])
        text += frame.before + frame.lead + message["content"] + frame.after
    for control in form.controls:
        text = text.replace(control, "")
    return text


def encode_dialogue(messages: Sequence[Message], form: ChatFormat, tokenizer: Tokenizer) -> Transcript:
    """A whole conversation, from the token that begins a text on."""
    return encode_dialogues([messages], form, tokenizer)[0]


def encode_dialogues(talks: Sequence[Sequence[Message]], form: ChatFormat, tokenizer: Tokenizer) -> list[Transcript]:
    """Whole conversations. All that they say is cut into tokens at once, which is several times as fast."""
    roles = dict.fromkeys(message["role"] for talk in talks for message in talk)
    # a lead belongs to the first word, so where there is no word there is none
    said = [
        form.frame(message["role"]).lead + message["content"] if message["content"] else ""
        for talk in talks
        for message in talk
    ]
    before = {role: _obey(form.frame(role).before, form, tokenizer) for role in roles}
    after = {role: _obey(form.frame(role).after, form, tokenizer) for role in roles}
    rows, end, scripts = iter(tokenizer.encode(said)), find_end(form, tokenizer), list[Transcript]()
    for talk in talks:
        script = Transcript()
        script.add([tokenizer.begin], False)
        for number, message in enumerate(talk, 1):
            role, answers = message["role"], message["role"] == ASSISTANT
            script.add(before[role], False)
            script.add([*next(rows), end] if answers else next(rows), answers)
            if number < len(talk) or not answers:  # a last answer ends the text
                script.add(after[role], False)
        scripts.append(script)
    return scripts


def encode_prompt(messages: Sequence[Message], form: ChatFormat, tokenizer: Tokenizer) -> list[int]:
    """A conversation up to where the next answer begins."""
    # an answer before the last message is followed by what stands after it, and so is one at the end: more is to come
    script = encode_dialogue([*messages, {"role": ASSISTANT, "content": ""}], form, tokenizer)
    return script.tokens[: len(script.tokens) - len(encode_answer("", form, tokenizer))]


def encode_answer(text: str, form: ChatFormat, tokenizer: Tokenizer, whole: bool = True) -> list[int]:
    """An answer's tokens and the one that ends it; one that was cut, and isn't whole, has no end."""
    lead = form.frame(ASSISTANT).lead
    return [*tokenizer.encode([lead + text if text else ""])[0], *([find_end(form, tokenizer)] if whole else [])]


def decode_answers(rows: Sequence[Sequence[int]], form: ChatFormat, tokenizer: Tokenizer) -> list[str]:
    """The texts of answers, without the tokens that end them."""
    lead = form.frame(ASSISTANT).lead
    return [text.removeprefix(lead) for text in tokenizer.decode(rows)]


def find_end(form: ChatFormat, tokenizer: Tokenizer) -> int:
    """The token that ends an answer."""
    return _obey(form.end, form, tokenizer)[0] if form.end else tokenizer.end


def _obey(text: str, form: ChatFormat, tokenizer: Tokenizer) -> list[int]:
    """The tokens of what a format itself says: its controls are meant."""
    if not text:
        return []
    return tokenizer.obey(text, list_controls(form, tokenizer)) if form.controls else tokenizer.encode([text])[0]


def list_controls(form: ChatFormat, tokenizer: Tokenizer) -> list[int]:
    """The numbers of a format's controls; refused where the tokenizer has none for one of them."""
    found, known = list[int](), tokenizer.controls
    for name in form.controls:
        number = tokenizer.engine.token_to_id(name)
        if number is None or number not in known:
            raise SpecError(f"format {form.name}: the tokenizer has no token {name}", "format=turns")
        found.append(number)
    return found


def _suggest(role: str, name: str) -> str:
    """A format that has a place for a role."""
    return next((form.name for form in FORMATS.values() if role in form.frames and form.name != name), "turns")
