"""Talking: what was said is read once, and the answers are those of a model that reads all anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.core.model import Model
from regard.data.dialogue import FORMATS, ChatFormat, encode_answer, encode_prompt, find_end, find_format
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


def talkative(form: ChatFormat, kind: str = "gpt2", context: int | None = 400) -> Writer:
    """One that talks in a format, whose controls are tokens of its own."""
    text = "".join(map(chr, range(32, 127))) + "\n"
    tokenizer = TokenizerSpec(pieces="character").train([text], form.controls)
    torch.manual_seed(3)
    more = {"context": 400, "heads": 2} if kind == "gpt2" else {}
    model = preset(kind, vocabulary=len(tokenizer), width=32, depth=2, **more).build().eval()
    return Writer(model, tokenizer, context, format=form)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORMATS)
def test_turns_in_a_format_are_read_once_and_as_in_training(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = find_format(name)
    told = "be kind" if "system" in form.frames else ""
    talk = Conversation(talkative(form, kind, 400 if kind == "gpt2" else None), system=told)
    watched, tokenizer, expected = Watched(talk.writer.model, monkeypatch), talk.writer.tokenizer, list[int]()
    for text in ("hello", "who <|im_end|>", "bye"):
        pieces = listen(talk, text, min_tokens=3)
        drawn = [tokenizer.engine.token_to_id(piece.token) or 0 for piece in pieces if piece.reason != "end"]
        earlier = talk.messages[:-1]
        asked = encode_prompt(earlier, form, tokenizer)
        if expected:  # what follows the last answer, whose tokens are those that were drawn
            before = encode_prompt(earlier[:-2], form, tokenizer)
            asked = asked[len(before) + len(encode_answer(earlier[-2]["content"], form, tokenizer)) :]
        expected += [*asked, *drawn, find_end(form, tokenizer)]
        assert talk.held + talk.unread == expected
    assert watched.read == talk.held
    roles = [message["role"] for message in talk.messages]
    assert roles == [*["system"] * bool(told), *["user", "assistant"] * 3]


@pytest.mark.parametrize("talk_of", ["format", "template", "plain"])
def test_an_answer_can_be_taken_back_and_said_again(letters: Tokenizer, talk_of: str) -> None:
    def talk() -> Conversation:
        if talk_of == "format":
            return Conversation(talkative(find_format("turns")))
        return Conversation(writer(letters), TEMPLATE if talk_of == "template" else None)

    one, other = talk(), talk()
    for each in (one, other):
        listen(each, "hello", min_tokens=7)
    with_mistake = listen(one, "who", min_tokens=7)
    assert one.take_back() == "who"
    again = listen(one, "who", min_tokens=7)
    straight = listen(other, "who", min_tokens=7)
    assert [piece.token for piece in again] == [piece.token for piece in straight]  # greedily, the same
    assert [piece.token for piece in with_mistake] == [piece.token for piece in again]
    assert one.messages == other.messages and one.held + one.unread == other.held + other.unread
    one.reset()
    with pytest.raises(InputError, match="no answer to take back"):
        one.take_back()


# what the models' own files say, as far as it concerns these roles
TEMPLATES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}",
    "zephyr": "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% endfor %}"
    "{{ '<|assistant|>\n' }}",
    "llama-3": "{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + (m.content | trim)"
    " + '<|eot_id|>' }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}",
    "gemma": "{% for m in messages %}{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n'"
    " + (m.content | trim) + '<end_of_turn>\n' }}{% endfor %}{{ '<start_of_turn>model\n' }}",
    "phi-3": "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}"
    "{{ '<|assistant|>\n' }}",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_formats_are_what_the_templates_of_models_render(name: str) -> None:
    form = find_format(name)
    tokenizer = talkative(form).tokenizer
    messages = [
        {"role": role, "content": f"{role} says {n}"}
        for n, role in enumerate(["system", "user", "assistant", "user"])
        if role in form.frames
    ]
    rendered = ChatTemplate(TEMPLATES[name], {"eos_token": "</s>"}).render(messages)
    assert encode_prompt(messages, form, tokenizer) == [
        tokenizer.begin,
        *tokenizer.obey(rendered, tokenizer.controls),
    ]
