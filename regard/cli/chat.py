"""The verb that talks: one types, the model answers as the text comes, and both go on from there."""

from __future__ import annotations

import io
import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import PRECISION, RUN, verb
from regard.cli.generate import SEED, SETTINGS, STOP, TEMPERATURE, TOKENS, TOP_P, writing_settings
from regard.errors import RegardError
from regard.host.machine import give_way, keep_memory

if TYPE_CHECKING:
    from types import FrameType

    from regard.decode.conversation import Conversation
    from regard.decode.search import Search

ENDS = ("/quit", "/exit")
HELP = """/retry                answer the last message again, by other luck
/temperature 0.5      write more surely; 0 takes the likeliest, alone it tells
/history              what was said so far
/save FILE            add the conversation to a JSONL file
/reset                begin anew
/settings top_p=0.9   write otherwise from here on; alone, it tells the settings
/help                 this
/quit, /exit          the end
//text                a text that begins with a slash
Ctrl-C stops an answer, Ctrl-D ends."""


@verb("Ask a model")
@give_way()
def chat(
    run: RUN,
    system: Annotated[
        str, typer.Option(metavar="TEXT", help="What a chat model is told before all else: who it is, how to answer.")
    ] = "",
    plain: Annotated[
        bool, typer.Option("--plain", help="Go on from what is typed, though the model knows a chat format.")
    ] = False,
    tokens: TOKENS = None,
    temperature: TEMPERATURE = None,
    top_p: TOP_P = None,
    seed: SEED = 0,
    stop: STOP = None,
    settings: SETTINGS = None,
    precision: PRECISION = None,
) -> None:
    """Talk with a language model.

    A model that learned conversations here talks in the format that it learned, and one from elsewhere through its chat
    template where it came with one; any other model goes on from what you type.
    What was said is read once. Ctrl-C stops an answer, Ctrl-D ends, /help tells the rest.
    """
    keep_memory()
    how = writing_settings(tokens, temperature, top_p, seed, settings)
    talk = open_talk(run, system, plain, how, stop or [], precision)
    talk.introduce(run)
    while (line := talk.listen()) is not None and line.strip() not in ENDS:
        if line.startswith("/") and not line.startswith("//"):
            talk.obey(line)
        elif line.strip():
            talk.answer(line.removeprefix("/") if line.startswith("//") else line)


def open_talk(
    noun: str, system: str, plain: bool, how: dict[str, Any], stops: list[str], precision: str | None = None
) -> Talk:
    """A conversation with the model that a noun names."""
    from regard.data.dialogue import SYSTEM
    from regard.decode.conversation import Conversation
    from regard.decode.template import ChatTemplate
    from regard.decode.writer import Writer
    from regard.runs.load import insist_on_kind, load_bundle

    bundle = load_bundle(noun, precision=precision)
    writer = insist_on_kind(bundle.pipeline(), noun, Writer, "only a language model goes on from what is said")
    # what was trained here learned plain texts or a format, whatever it began from
    template = None if plain or bundle.task is not None else ChatTemplate.find(bundle.origin)
    if plain:
        writer = replace(writer, format=None)
    if system and writer.format is not None:
        writer.format.frame(SYSTEM)  # or it is refused before anybody has typed
    elif system and template is None:
        raise RegardError("--system: there is no chat format to put it in", "leave --system out")
    if template is not None:
        first = [{"role": "system", "content": system}] if system else []
        template.render([*first, {"role": "user", "content": "Hello"}])  # or it is refused before anybody has typed
    return Talk(Conversation(writer, template, system), writer.search.replace(**how), stops)


@dataclass
class Talk:
    """A conversation at a terminal, or through pipes: a line in, an answer out."""

    conversation: Conversation
    settings: Search
    stops: list[str]
    person: bool = field(default_factory=lambda: sys.stdin.isatty() and sys.stdout.isatty())

    @property
    def answers(self) -> bool:
        """Whether the model takes turns, and doesn't just write on."""
        return self.conversation.template is not None or self.conversation.writer.format is not None

    def introduce(self, noun: str) -> None:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")  # bytes that are no text must not end a conversation
        if self.person:
            import readline  # noqa: F401  makes lines editable

            kind = "answers" if self.answers else "goes on from what you type"
            print(f"{noun} {kind}; /help tells more, /quit or Ctrl-D ends", file=sys.stderr)

    def listen(self) -> str | None:
        """What was typed; None at the end."""
        while True:
            try:
                return input("> " if self.person else "")
            except EOFError:
                if self.person:
                    print()
                return None
            except KeyboardInterrupt:
                print("\n(Ctrl-D ends)", file=sys.stderr)

    def obey(self, line: str) -> None:
        """A word for the program and not for the model."""
        word, *rest = line.split()
        if word == "/reset":
            self.conversation.reset()
            self._tell("(a new conversation)")
        elif word == "/settings":
            self._change(rest)
        elif word == "/temperature":
            self._warm(rest)
        elif word == "/retry":
            self._retry()
        elif word == "/history":
            for message in self.conversation.messages:
                self._tell(f"{message['role']}: {message['content']}")
        elif word == "/save":
            self._save(line.partition(word)[2].strip())
        elif word == "/help":
            self._tell(HELP)
        else:
            self._tell(f"(no such word: {word}; /help lists them)")

    def _change(self, words: list[str]) -> None:
        from regard.config import assignments

        try:
            self.settings = self.settings.replace(**assignments(words))
        except RegardError as error:
            return self._tell(f"regard: {error}")
        usual = type(self.settings)()
        there = {name: value for name, value in self.settings.fields().items() if value != vars(usual)[name]}
        self._tell("(" + "  ".join(f"{name}={value}" for name, value in there.items() if name != "kind") + ")")

    def _warm(self, words: list[str]) -> None:
        """Another temperature, or which one it is."""
        if not words:
            return self._tell(f"(temperature {self.settings.temperature if self.settings.sample else 0})")
        try:
            value = float(words[0])
            chosen = {"sample": value > 0, "temperature": value or 1.0}
            self.settings = self.settings.replace(**chosen)
        except (ValueError, RegardError):
            return self._tell(f"regard: /temperature {words[0]}: a number from 0 on\n  try: /temperature 0.8")
        self._tell(f"(temperature {value:g})")

    def _retry(self) -> None:
        try:
            typed = self.conversation.take_back()
        except RegardError as error:
            return self._tell(f"regard: {error}")
        self.answer(typed)

    def _save(self, name: str) -> None:
        """Add the conversation to a file, a line of JSON as readers of conversations take it."""
        from regard.host.output import append_line

        messages = self.conversation.messages
        if not name or not messages:
            return self._tell("(/save FILE, once something was said)")
        try:
            append_line(Path(name), json.dumps({"messages": messages}, ensure_ascii=False))
        except RegardError as error:
            return self._tell(f"regard: {error}")
        self._tell(f"({len(messages)} messages added to {name})")

    def answer(self, text: str) -> None:
        """Write the answer out as it comes; what goes wrong ends the turn and not the conversation."""
        reason = None
        try:
            with (
                catch_interrupt() as stopped,
                closing(self.conversation.say(text, self.settings, self.stops)) as pieces,
            ):
                if self.conversation.rewritten:
                    self._tell("(the chat template changed what was said before, so all is read again)")
                for piece in pieces:
                    print(piece.text, end="", flush=True)
                    reason = piece.reason
                    if stopped.is_set():
                        break
            print(flush=True)
        except RegardError as error:
            return self._tell(f"regard: {error}")
        if reason == "context":
            context = self.conversation.writer.context
            self._tell(f"regard: the context of {context} tokens is full; /reset begins anew")
        elif reason == "end" and not self.answers and self.person:
            self._tell("(its text has ended; what you type next begins another)")

    def _tell(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


@contextmanager
def catch_interrupt() -> Iterator[threading.Event]:
    """Take Ctrl-C as a wish to stop after the token that is being written: a step that is cut would spoil the state."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return

    def hear(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():  # somebody is in a hurry
            raise KeyboardInterrupt
        stopped.set()

    before = signal.signal(signal.SIGINT, hear)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)
