"""Writing on: what is told is sure, and it is what stepping through the model gives."""

from __future__ import annotations

import pytest
import torch

from regard.core.model import Model
from regard.data.tokenizer import Tokenizer, TokenizerSpec
from regard.decode.filters import special_tokens
from regard.decode.translator import Wishes
from regard.decode.writer import Strand, Writer, overlap
from regard.errors import InputError, RegardError, SpecError
from regard.models import preset

TEXTS = ["Ça va très bien, merci beaucoup.", "日本語のテキスト", "naïve café 👍🏽 ok", "plain text, nothing more"]


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    return TokenizerSpec(pieces="character").train(["abcdefgh "])


def model(size: int, kind: str = "gpt2", **settings: int) -> Model:
    torch.manual_seed(3)
    context = {"context": 24} if kind == "gpt2" else {}
    return preset(kind, vocabulary=size, width=32, depth=2, **context, **settings).build().eval()


@pytest.fixture(scope="module")
def writer(letters: Tokenizer) -> Writer:
    return Writer(model(len(letters), heads=2), letters, 24)


def test_greedy_writing_is_what_the_whole_model_says(writer: Writer) -> None:
    tokens = writer.read("abc")
    for _ in range(8):
        with torch.no_grad():
            scores = writer.model(torch.tensor([tokens]))[0, -1]
        scores[special_tokens(writer.tokenizer)] = -torch.inf
        tokens.append(int(scores.argmax()))
    (found,) = writer.write("abc", sample=False, max_tokens=8)
    expected = tokens[4:]
    if writer.tokenizer.end in expected:
        expected = expected[: expected.index(writer.tokenizer.end) + 1]
    assert found.tokens == writer.tokenizer.pieces(expected)
    assert found.text == writer.tokenizer.decode([expected])[0]


def test_a_stream_is_the_same_text_in_pieces(writer: Writer) -> None:
    pieces = list(writer.stream("ab", max_tokens=15, seed=4))
    (whole,) = writer.write("ab", max_tokens=15, seed=4)
    assert "".join(piece.text for piece in pieces) == whole.text
    assert [piece.log_probability for piece in pieces] == pytest.approx(whole.log_probabilities)
    assert [piece.reason for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
    assert pieces[-1].reason == whole.reason


def test_probabilities_are_the_models_own(writer: Writer) -> None:
    """Whatever shapes the draw, what is told is the softmax of the logits."""
    piece = next(iter(writer.stream("abc", temperature=0.3, top_k=2, max_tokens=3)))
    with torch.no_grad():
        logs = writer.model(torch.tensor([writer.read("abc")]))[0, -1].log_softmax(-1)
    number = writer.tokenizer.engine.token_to_id(piece.token)
    assert piece.log_probability == pytest.approx(float(logs[number]), abs=1e-5)
    assert piece.probability == pytest.approx(float(logs[number].exp()), abs=1e-5)


def test_several_samples_differ_and_each_is_what_its_seed_gives(writer: Writer) -> None:
    found = writer.write("ab", samples=4, max_tokens=12, seed=7)
    assert len({item.text for item in found}) > 1
    assert [item.text for item in writer.write("ab", samples=4, max_tokens=12, seed=7)] == [item.text for item in found]
    assert writer.write("ab", samples=1, max_tokens=12, seed=7)[0].text == found[0].text


def test_the_prompt_is_read_once_and_then_one_token_a_step(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[tuple[int, ...]] = []
    step = Model.step

    def counted(self: Model, tokens: torch.Tensor, *rest: object, **named: object) -> torch.Tensor:
        fed.append(tuple(tokens.shape))
        return step(self, tokens, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Model, "step", counted)
    writer.write("abcd", samples=3, sample=True, max_tokens=5, min_tokens=5)
    assert fed[0] == (1, 5)  # the beginning and four letters, once for all samples
    assert set(fed[1:]) == {(3,)}


@pytest.mark.parametrize("text", TEXTS)
def test_no_character_is_ever_split(text: str) -> None:
    tokenizer = TokenizerSpec(pieces="byte").train([])
    strand = Strand(tokenizer, tokenizer.encode(["é "])[0], [])
    tokens = tokenizer.encode([text])[0]
    told = [strand.add(token, last=number == len(tokens) - 1) for number, token in enumerate(tokens)]
    assert "".join(told) == text
    assert all("\ufffd" not in piece for piece in told)
    assert sum(bool(piece) for piece in told) == len(text)  # a character comes with its last byte


def test_half_a_character_at_the_very_end_is_not_swallowed() -> None:
    tokenizer = TokenizerSpec(pieces="byte").train([])
    strand = Strand(tokenizer, [], [])
    tokens = tokenizer.encode(["é"])[0][:1]
    assert strand.add(tokens[0], last=True) == "\ufffd"


@pytest.mark.parametrize(
    ("stop", "expected", "stopped"),
    [
        ("cd", "ab", True),
        ("xyz", "abcdefgh", False),
        ("h", "abcdefg", True),
        ("abc", "", True),
        ("hi", "abcdefgh", False),
    ],
)
def test_text_ends_before_a_stop_string_and_no_part_of_one_is_told(
    letters: Tokenizer, stop: str, expected: str, stopped: bool
) -> None:
    strand, told = Strand(letters, [], [stop]), ""
    for token in letters.encode(["abcdefgh"])[0]:
        told += strand.add(token, last=False)
        if strand.stopped:
            break
    if not strand.stopped:
        told += strand.sure(last=True)
    assert told == expected
    assert strand.stopped == stopped


def test_what_may_become_a_stop_string_is_held_back(letters: Tokenizer) -> None:
    strand = Strand(letters, [], ["cde"])
    a, b, c, d, _, f = letters.encode(["abcdef"])[0]
    assert [strand.add(token, last=False) for token in (a, b, c, d)] == ["a", "b", "", ""]
    assert strand.add(f, last=False) == "cdf"


def test_overlap_is_the_longest_beginning_at_the_end() -> None:
    assert [overlap(text, "abab") for text in ("xab", "xaba", "x", "xabab")] == [2, 3, 0, 2]


def test_a_prompt_longer_than_the_context_is_an_error_with_a_way_out(writer: Writer) -> None:
    with pytest.raises(InputError, match=r"31 tokens.* 24") as error:
        writer.write("a" * 30)
    assert "--slide" in str(error.value)
    assert writer.write("a" * 30, slide=True, max_tokens=3, min_tokens=3)[0].reason == "maximum"


def test_a_full_context_ends_the_text_unless_it_slides(writer: Writer) -> None:
    (found,) = writer.write("abcd", max_tokens=100, min_tokens=100)
    assert found.reason == "context"
    assert len(found.tokens) == 24 - 5 + 1
    (longer,) = writer.write("abcd", max_tokens=100, min_tokens=100, slide=True)
    assert longer.reason == "maximum"
    assert len(longer.tokens) == 100
    assert longer.tokens[: len(found.tokens)] == found.tokens


def test_a_recurrence_has_no_end_of_context(letters: Tokenizer) -> None:
    network = model(len(letters), "lstm")
    assert network.endless
    writer = Writer(network, letters, None)
    stream = writer.begin("ab", writer.search.replace(max_tokens=60, min_tokens=60), [], 1, False)
    sizes = [stream.state_bytes for _ in stream]
    assert len(sizes) == 60
    assert len(set(sizes)) == 1  # what it remembers doesn't grow


def test_a_beam_is_refused(writer: Writer) -> None:
    with pytest.raises(InputError, match="token by token"):
        writer.write("a", beam=3, sample=False)


@pytest.mark.parametrize("sample", [True, False])
def test_rules_that_leave_nothing_are_named(writer: Writer, sample: bool) -> None:
    """Nine letters come once each, and then only the end is left, which may not come yet."""
    with pytest.raises(SpecError, match=r"after 9 tokens: .*no_repeat=1.*min_tokens=15"):
        writer.write("ab", sample=sample, no_repeat=1, min_tokens=15, max_tokens=20)


@pytest.mark.parametrize("sample", [True, False])
def test_only_scores_that_are_no_numbers_are_called_damaged(letters: Tokenizer, sample: bool) -> None:
    broken = model(len(letters), heads=2)
    for weight in broken.parameters():
        weight.data.fill_(torch.nan)
    with pytest.raises(RegardError, match="weights are damaged"):
        Writer(broken, letters, 24).write("ab", sample=sample)


@pytest.mark.parametrize("sample", [True, False])
def test_special_tokens_are_never_written(letters: Tokenizer, sample: bool) -> None:
    network = model(len(letters), heads=2)
    assert network.head is not None
    for token in special_tokens(letters):
        network.head.bias = torch.nn.Parameter(torch.zeros(len(letters)).index_fill(0, torch.tensor(token), 20.0))
        (found,) = Writer(network, letters, 24).write("ab", sample=sample, max_tokens=6)
        assert letters.pieces([token])[0] not in found.tokens


def test_only_a_model_from_elsewhere_is_steered_by_what_a_prompt_spells(letters: Tokenizer, writer: Writer) -> None:
    """Its chat format needs that; to a model of ours a prompt is text."""
    assert writer.read("ab[EOS]")[1:] == letters.encode(["ab[EOS]"])[0]
    assert letters.end not in writer.read("ab[EOS]")
    guest = Writer(writer.model, letters, 24, foreign=True)
    assert guest.read("ab[EOS]") == [*letters.encode(["ab"])[0], letters.end]


def test_one_word_where_several_may_stand_is_not_taken_for_its_letters(letters: Tokenizer, writer: Writer) -> None:
    with pytest.raises(InputError, match=r"list of strings, and 'ab' is of type str\n  try: stop="):
        writer.write("a", stop="ab")
    for wishes in (Wishes(required="ab"), Wishes(banned="ab")):
        with pytest.raises(InputError, match=r"list of strings, and '.*' is of type str"):
            wishes.demands(1, letters)
