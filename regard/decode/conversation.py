"""A conversation: a person and a model write one text in turns, and what the model has read it doesn't read again.

A model that learned conversations reads messages in the format that it learned. Where a chat template came with a model
from elsewhere, they go through that. Otherwise the model goes on from what is typed, as from any text. The state stays
between turns; only what is new is read, and what was drawn last.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.core.state import State
from regard.data.dialogue import (
    ASSISTANT,
    SYSTEM,
    USER,
    ChatFormat,
    Message,
    encode_answer,
    encode_prompt,
    find_end,
    say,
)
from regard.decode.engine import Beginning, Scorer
from regard.decode.search import Search
from regard.decode.template import ChatTemplate
from regard.decode.writer import Piece, Stream, Writer
from regard.errors import InputError


class Reply(Stream):
    """An answer that goes on from a state; `state` is there again when it has ended, wherever that was."""

    def __init__(
        self,
        writer: Writer,
        held: Sequence[int],
        unread: Sequence[int],
        state: State,
        settings: Search,
        stops: Sequence[str],
    ) -> None:
        super().__init__(writer, [*held, *unread], settings, stops, 1, slide=False)
        self.unread, self.state = list(unread), state

    def __iter__(self) -> Iterator[dict[int, Piece]]:
        self.engine.admit(self)
        while self.engine.busy:
            state = self.engine.state  # the step moves it in place
            self.engine.step()
            self.state = self.state if state is None else state
            if self.error is not None:
                raise self.error
            yield self.pieces

    def start(self, scorer: Scorer, written: Tensor) -> Beginning:
        return Beginning(self.state, torch.tensor([self.unread], device=scorer.device))


@dataclass(frozen=True)
class Past:
    """What a conversation was before a turn."""

    messages: list[dict[str, str]]
    tokens: list[int]
    text: str


@dataclass
class Conversation:
    """What was said so far."""

    writer: Writer
    template: ChatTemplate | None = None
    system: str = ""  # what stands before all messages, where there is a template or a format
    messages: list[dict[str, str]] = field(default_factory=list)
    held: list[int] = field(default_factory=list)  # tokens that the state has read
    unread: list[int] = field(default_factory=list)  # what was written last: nobody has read it yet
    state: State | None = None
    text: str = ""  # through a template: all that was rendered, and the last answer
    turns: int = 0
    rewritten: bool = False  # the template changed what was said before, so all was read again
    before: Past | None = None  # what there was before the last turn

    def reset(self) -> None:
        """Forget everything but who is talking."""
        self.messages, self.held, self.unread, self.state, self.text = [], [], [], None, ""
        self.before = None

    def take_back(self) -> str:
        """Be as before the last turn, and give what was typed in it; the model will read again what came earlier."""
        if self.before is None:
            raise InputError("there is no answer to take back", "say something first")
        typed = next(message["content"] for message in reversed(self.messages) if message["role"] == USER)
        self.messages, self.unread, self.text = self.before.messages, self.before.tokens, self.before.text
        self.held, self.state, self.before = [], None, None
        return typed

    def say(self, text: str, settings: Search, stops: Sequence[str] = ()) -> Generator[Piece, None, None]:
        """The model's answer to what was typed, piece by piece; it may be left at any piece.

        A text that doesn't fit the context any more is an error, and nothing is forgotten.
        """
        if settings.beam > 1:
            raise InputError(f"beam {settings.beam}: text is written token by token", "/settings beam=1")
        fresh, messages, rendered, again = self._read(text)
        before = [] if again else [*self.held, *self.unread]
        context = self.writer.context
        if context is not None and len(before) + len(fresh) > context:
            told = f"the context of {context} tokens is full: {len(before)} are taken, and this has {len(fresh)} more"
            raise InputError(told, "/reset begins anew")
        past = Past(self.messages, [*self.held, *self.unread], self.text)
        if again:
            self.held, self.unread, self.state = [], [], None
        state = self.state
        if state is None:
            waiting = len(self.unread) + len(fresh)
            state = self.writer.model.start(1, room=self.writer.room(waiting, waiting))
        chance = settings.replace(seed=settings.seed + self.turns)  # or each answer would have the same luck
        reply = Reply(self.writer, self.held, [*self.unread, *fresh], state, chance, stops)
        self.before, self.messages, self.turns = past, messages, self.turns + 1
        self.rewritten = again and bool(self.text)
        return self._listen(reply, rendered)

    def _listen(self, reply: Reply, rendered: str) -> Generator[Piece, None, None]:
        said, last = "", None
        try:
            for pieces in reply:
                last = pieces[0]
                said += last.text
                yield last
        finally:
            if last is None:  # nothing was written, and what was read may be half read
                self.reset()
            else:
                self._note(reply, rendered, said, last)

    def _note(self, reply: Reply, rendered: str, said: str, last: Piece) -> None:
        """Keep what was written; the last token is unread yet."""
        tokens = reply.strands[0].tokens
        if last.reason == "end":  # which a strand doesn't keep, since it isn't text
            self.held, self.unread = tokens, []
        else:
            self.held, self.unread = tokens[:-1], tokens[-1:]
        self.state = reply.state
        self.messages = [*self.messages, say(ASSISTANT, said)]
        if self.writer.format is not None:
            # an answer that was stopped ends there too
            self.unread.append(find_end(self.writer.format, self.writer.tokenizer))
        elif self.template is not None:
            # the template itself says how a turn ends, whether the model came to that or was stopped
            self.text = rendered + said
        elif last.reason == "end":
            self.held, self.unread, self.state = [], [], None  # its text is over, and the next one begins another

    def _read(self, text: str) -> tuple[list[int], list[dict[str, str]], str, bool]:
        """What is new to the model, the messages with it, what was rendered, and whether all is read again."""
        first = [say(SYSTEM, self.system)] if self.system and not self.messages else []
        messages = [*first, *self.messages, say(USER, text)]
        if self.writer.format is not None:
            return self._read_turn(messages, self.writer.format), messages, "", False
        if self.template is None:
            return self._read_plain(text), messages, "", False
        rendered = self.template.render(messages)
        begins = bool(self.text) and rendered.startswith(self.text)
        if self.text and not begins and rendered.startswith(self.text.rstrip()):
            # templates trim what was said; the spaces at its end were read, and stay
            fresh, begins = rendered[len(self.text.rstrip()) :], True
        else:
            fresh = rendered[len(self.text) :] if begins else rendered
        return self._encode(fresh, text), messages, rendered, not begins

    def _read_turn(self, messages: Sequence[Message], form: ChatFormat) -> list[int]:
        """The tokens that follow the last answer, which stays as it was drawn, whatever else its text could be."""
        tokens = encode_prompt(messages, form, self.writer.tokenizer)
        if not self.held and not self.unread:
            return tokens
        *earlier, answer, _ = messages
        asked = encode_prompt(earlier, form, self.writer.tokenizer)
        return tokens[len(asked) + len(encode_answer(answer["content"], form, self.writer.tokenizer)) :]

    def _encode(self, fresh: str, typed: str) -> list[int]:
        """The tokens of what a template made: its own special tokens are meant, those that a person typed are text."""
        tokenizer = self.writer.tokenizer
        controls = tokenizer.controls
        spelled = any(name in typed for name in tokenizer.pieces(sorted(controls)))
        content = typed if typed in fresh else typed.strip()
        if not spelled or content not in fresh:
            return tokenizer.obey(fresh, controls)
        before, after = fresh[: fresh.rindex(content)], fresh[fresh.rindex(content) + len(content) :]
        middle = tokenizer.encode([content])[0]
        return [*tokenizer.obey(before, controls), *middle, *tokenizer.obey(after, controls)]

    def _read_plain(self, text: str) -> list[int]:
        """What is typed, as it goes on from what is there: on a new line, where the tokens know lines."""
        if not self.held and not self.unread:
            return self.writer.encode(text)
        tokenizer = self.writer.tokenizer
        known = tokenizer.decode(tokenizer.encode(["a\nb"]))[0] == "a\nb"
        return tokenizer.encode([f"\n{text}" if known else text])[0]
