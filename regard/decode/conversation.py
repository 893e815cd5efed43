"""A conversation: a person and a model write one text in turns, and what the model has read it doesn't read again.

Where a chat template came with the model, messages go through it. Otherwise the model goes on from what is typed, as
from any text. The state stays between turns; only what is new is read, and what was drawn last.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.core.state import State
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


@dataclass
class Conversation:
    """What was said so far."""

    writer: Writer
    template: ChatTemplate | None = None
    system: str = ""  # what a template puts before all messages
    messages: list[dict[str, str]] = field(default_factory=list)
    held: list[int] = field(default_factory=list)  # tokens that the state has read
    unread: list[int] = field(default_factory=list)  # what was written last: nobody has read it yet
    state: State | None = None
    text: str = ""  # through a template: all that was rendered, and the last answer
    turns: int = 0
    rewritten: bool = False  # the template changed what was said before, so all was read again

    def reset(self) -> None:
        """Forget everything but who is talking."""
        self.messages, self.held, self.unread, self.state, self.text = [], [], [], None, ""

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
        if again:
            self.held, self.unread, self.state = [], [], None
        state = self.state
        if state is None:
            state = self.writer.model.start(1, room=self.writer.room(len(fresh), len(fresh)))
        chance = settings.replace(seed=settings.seed + self.turns)  # or each answer would have the same luck
        reply = Reply(self.writer, self.held, [*self.unread, *fresh], state, chance, stops)
        self.messages, self.turns, self.rewritten = messages, self.turns + 1, again and bool(self.text)
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
        if self.template is not None:
            # the template itself says how a turn ends, whether the model came to that or was stopped
            self.messages.append({"role": "assistant", "content": said})
            self.text = rendered + said
        elif last.reason == "end":
            self.reset()  # its text is over, and the next one begins another

    def _read(self, text: str) -> tuple[list[int], list[dict[str, str]], str, bool]:
        """What is new to the model, the messages with it, what was rendered, and whether all is read again."""
        if self.template is None:
            return self._read_plain(text), [], "", False
        first = [{"role": "system", "content": self.system}] if self.system and not self.messages else []
        messages = [*first, *self.messages, {"role": "user", "content": text}]
        rendered = self.template.render(messages)
        begins = bool(self.text) and rendered.startswith(self.text)
        if self.text and not begins and rendered.startswith(self.text.rstrip()):
            # templates trim what was said; the spaces at its end were read, and stay
            fresh, begins = rendered[len(self.text.rstrip()) :], True
        else:
            fresh = rendered[len(self.text) :] if begins else rendered
        return self._encode(fresh, text), messages, rendered, not begins

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
        if self.state is None:
            return self.writer.encode(text)
        tokenizer = self.writer.tokenizer
        known = tokenizer.decode(tokenizer.encode(["a\nb"]))[0] == "a\nb"
        return tokenizer.encode([f"\n{text}" if known else text])[0]
