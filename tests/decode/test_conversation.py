"""Talking: what was said is read once, and the answers are those of a model that reads all anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.core.model import Model
from regard.data.tokenizer import Tokenizer, TokenizerSpec
from regard.decode.conversation import Conversation
from regard.decode.template import ChatTemplate
from regard.decode.writer import Piece, Writer
from regard.errors import InputError
from regard.models import preset

KINDS = ("gpt2", "lstm", "mamba-130m")
CHAT = (
    "{{ bos_token }}{% for message in messages %}<{{ message.role }}>{{ message.content | trim }}[EOS]{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TEMPLATE = ChatTemplate(CHAT, {"bos_token": "[BOS]"})


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    return TokenizerSpec(pieces="character").train(["abcdefghijklmnopqrstuvwxyz <>\nABCDEFGHIJKLMNOPQRSTUVWXYZ[]"])


def writer(letters: Tokenizer, kind: str = "gpt2", context: int | None = 200) -> Writer:
    torch.manual_seed(3)
    more = {"context": 200, "heads": 2} if kind == "gpt2" else {}
    model = preset(kind, vocabulary=len(letters), width=32, depth=2, **more).build().eval()
    return Writer(model, letters, context)


class Watched:
    """Counts the tokens that a model reads."""

    def __init__(self, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[int] = []
        step = model.step

        def count(tokens: torch.Tensor, *args: Any, **settings: Any) -> torch.Tensor:
            self.read += tokens.reshape(-1).tolist()
            return step(tokens, *args, **settings)

        monkeypatch.setattr(model, "step", count)


def listen(talk: Conversation, text: str, **settings: Any) -> list[Piece]:
    usual = {"sample": False, "max_tokens": 7, "min_tokens": 3}
    return list(talk.say(text, talk.writer.search.replace(**usual | settings)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_token_is_read_once_and_the_answer_is_that_of_the_whole(
    letters: Tokenizer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Conversation(writer(letters, kind, None if kind != "gpt2" else 200))
    watched = Watched(talk.writer.model, monkeypatch)
    for text in ("abc", "de", "xyz"):
        before = [*talk.held, *talk.unread]
        pieces = listen(talk, text, min_tokens=7)
        added = letters.encode([f"\n{text}" if before else text])[0]
        read = [*before, *added] if before else [letters.begin, *added]
        with torch.no_grad():
            whole = talk.writer.model(torch.tensor([read]))[0, -1]
        whole[[letters.pad, letters.begin, letters.unknown, letters.end]] = -torch.inf
        assert letters.pieces([int(whole.argmax())])[0] == pieces[0].token
    assert watched.read == talk.held


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_is_left_early_spoils_nothing(letters: Tokenizer, kind: str) -> None:
    """What was told before the stop is there, and the next answer follows from it."""
    talk, other = (Conversation(writer(letters, kind, None)) for _ in range(2))
    answer = talk.say("abc", talk.writer.search.replace(sample=False, max_tokens=7, min_tokens=7))
    said = [next(answer) for _ in range(3)]
    answer.close()
    listen(other, "abc", max_tokens=3, min_tokens=3)
    assert talk.held == other.held and talk.unread == other.unread
    assert [piece.token for piece in said] == letters.pieces([*talk.held[-2:], *talk.unread])
    assert [piece.token for piece in listen(talk, "d")] == [piece.token for piece in listen(other, "d")]


def test_a_full_context_is_told_and_nothing_is_forgotten(letters: Tokenizer) -> None:
    talk = Conversation(writer(letters, context=30))
    listen(talk, "abc")
    held = list(talk.held)
    with pytest.raises(InputError, match="the context of 30 tokens is full") as error:
        listen(talk, "z" * 40)
    assert "/reset" in error.value.hint
    assert talk.held == held
    assert listen(talk, "ab", max_tokens=100)[-1].reason in ("context", "end")
    talk.reset()
    assert listen(talk, "abc")


def test_messages_go_through_the_template_and_only_the_new_ones_are_read(
    letters: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Conversation(writer(letters), TEMPLATE, "be kind")
    watched = Watched(talk.writer.model, monkeypatch)
    answers = []
    for text in ("hello", "who", "bye"):
        answers.append("".join(piece.text for piece in listen(talk, text)))
    assert not talk.rewritten
    assert [message["role"] for message in talk.messages] == ["system", *["user", "assistant"] * 3]
    expected = TEMPLATE.render(talk.messages[:-1])
    read = letters.obey(expected, letters.controls)
    if all(answer == answer.strip() for answer in answers):
        assert watched.read[: len(read)] == read
    assert len(watched.read) <= len(read) + 7 + 3 * 2  # spaces that the template trims, and the last answer


def test_a_special_token_that_somebody_types_is_text(letters: Tokenizer) -> None:
    talk = Conversation(writer(letters), TEMPLATE)
    listen(talk, "a[EOS]b")
    typed = letters.encode(["a[EOS]b"])[0]
    assert letters.end not in typed
    places = [n for n in range(len(talk.held)) if talk.held[n : n + len(typed)] == typed]
    assert places
    assert talk.held[places[0] + len(typed)] == letters.end  # the template's own


def test_a_template_that_rewrites_what_was_said_makes_it_read_again(letters: Tokenizer) -> None:
    """As those do that leave out earlier thoughts."""
    last = "{% for message in messages[-1:] %}<{{ message.role }}>{{ message.content }}{% endfor %}<assistant>"
    talk = Conversation(writer(letters), ChatTemplate(last))
    listen(talk, "abc")
    assert not talk.rewritten
    listen(talk, "d")
    assert talk.rewritten
    assert letters.decode([talk.held])[0].startswith("<user>d<assistant>")


def test_turns_have_luck_of_their_own(letters: Tokenizer) -> None:
    def talked(seed: int) -> list[str]:
        talk = Conversation(writer(letters))
        return ["".join(piece.text for piece in listen(talk, "a", sample=True, seed=seed)) for _ in range(2)]

    assert talked(1) == talked(1)
    assert talked(1) != talked(2)
