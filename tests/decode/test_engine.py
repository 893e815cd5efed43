"""One engine for requests that come and go: whatever stands beside a row, it writes what it writes alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.core.model import Model
from regard.data.tokenizer import Tokenizer, TokenizerSpec
from regard.decode.engine import Choice, Engine, Request, Turn
from regard.decode.ensemble import Ensemble
from regard.decode.filters import Demands
from regard.decode.search import BeamBatch, Hypothesis, Search, beam_search
from regard.decode.writer import Continuation, Piece, Stream, Writer, join_pieces
from regard.errors import SpecError
from regard.models import preset

CONTEXT, BEGIN, END, WORDS = 64, 0, 1, 12


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    return TokenizerSpec(pieces="character").train(["abcdefgh "])


NETWORKS: dict[str, dict[str, Any]] = {
    "llama3-8b": {"heads": 4, "kv_heads": 2},  # rotary positions
    "gpt2": {"heads": 2, "context": CONTEXT},  # learned ones
    "mistral-7b": {"heads": 4, "kv_heads": 2, "window": 5},  # a ring
    "deepseek-tiny": {},  # latents, and experts
    "hybrid": {},  # a scan, and attention
    "lstm": {},
    "mamba-130m": {},
    "ntm": {},
}


def stir(model: Model) -> Model:
    """Larger weights than a fresh model has, so that a word depends on all that came before it."""
    with torch.no_grad():
        for path, weight in model.named_parameters():
            if weight.dim() == 2 and not path.endswith("decay"):
                weight.normal_(std=0.3)
    return model.eval()


def network(name: str, vocabulary: int) -> Model:
    torch.manual_seed(3)
    return stir(preset(name, vocabulary=vocabulary, width=32, depth=2, **NETWORKS[name]).build())


# the step of its arrival, the prompt, how many continuations, and how they are written
ARRIVALS: list[tuple[int, str, int, dict[str, Any]]] = [
    (0, "abc abd", 1, {"sample": False}),
    (0, "h", 2, {"sample": True, "seed": 4}),
    (2, "ab ab ab ab ab", 1, {"sample": True, "seed": 5, "top_p": 0.9}),
    (3, "", 1, {"sample": False, "no_repeat": 2}),
    (3, "ceg", 3, {"sample": True, "seed": 6, "temperature": 1.5, "repetition": 1.2}),
    (9, "a", 1, {"sample": False, "min_tokens": 3}),
    (30, "dd", 1, {"sample": True, "seed": 7}),  # the others have gone
]


def begin(writer: Writer, prompt: str, samples: int, how: dict[str, Any], slide: bool = False) -> Stream:
    usual = {"min_tokens": 7, "max_tokens": 12} | how
    return writer.begin(prompt, writer.search.replace(**usual), [] if slide else ["hh"], samples, slide)


def alone(stream: Stream) -> list[Continuation]:
    return gather([stream], [(dict(pieces), stream) for pieces in stream])[0]


def gather(streams: list[Stream], turns: list[tuple[dict[int, Piece], Request]]) -> list[list[Continuation]]:
    """What each stream has told, row by row."""
    return [
        [
            join_pieces([pieces[row] for pieces, owner in turns if owner is stream and row in pieces])
            for row in range(len(stream.strands))
        ]
        for stream in streams
    ]


def serve(engine: Engine, arrivals: list[tuple[int, Stream]]) -> list[list[Continuation]]:
    """Step until all have come and gone."""
    turns: list[tuple[dict[int, Piece], Request]] = []
    for step in range(200):
        for when, stream in arrivals:
            if when == step:
                engine.admit(stream)
        for request in engine.step():
            assert isinstance(request, Stream)
            turns.append((request.pieces, request))
    assert not engine.busy
    return gather([stream for _, stream in arrivals], turns)


def compare(found: list[Continuation], expected: list[Continuation]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.tokens == other.tokens
        assert (one.text, one.reason) == (other.text, other.reason)
        assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_requests_that_come_at_any_time_are_each_as_if_alone(name: str, letters: Tokenizer) -> None:
    model = network(name, len(letters))
    writer = Writer(model, letters, None if model.endless else CONTEXT)
    engine = Engine(model)
    found = serve(engine, [(when, begin(writer, *what)) for when, *what in ARRIVALS])  # type: ignore[arg-type]
    for texts, (_, *what) in zip(found, ARRIVALS, strict=True):
        compare(texts, alone(begin(writer, *what)))  # type: ignore[arg-type]
    assert len({tuple(text.tokens) for texts in found for text in texts}) > 8  # they differ
    assert engine.state is None


def test_all_rows_are_stepped_in_one_call(letters: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[tuple[int, ...]] = []
    step = Model.step

    def counted(self: Model, tokens: torch.Tensor, *rest: object, **named: object) -> torch.Tensor:
        fed.append(tuple(tokens.shape))
        return step(self, tokens, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Model, "step", counted)
    writer = Writer(network("gpt2", len(letters)), letters, CONTEXT)
    engine = Engine(writer.model)
    for prompt, samples, most in (("abc", 2, 3), ("d", 1, 5)):
        engine.admit(begin(writer, prompt, samples, {"min_tokens": most, "max_tokens": most}))
        engine.step()
    sizes = [engine.state_bytes]
    while engine.busy:
        engine.step()
        sizes.append(engine.state_bytes)
    assert fed == [(1, 4), (2,), (1, 2), (3,), (1,), (1,), (1,)]
    assert sizes[0] > sizes[2] > 0


@pytest.mark.parametrize("name", ["gpt2", "mistral-7b"])
def test_a_request_that_slides_disturbs_nobody(name: str, letters: Tokenizer) -> None:
    model = network(name, len(letters))
    writer = Writer(model, letters, 20)
    many = {"min_tokens": 60, "max_tokens": 60}
    whats: list[tuple[str, int, dict[str, Any], bool]] = [
        ("abcd", 2, {"seed": 1, **many}, True),
        ("h", 1, {"sample": False, **many}, False),
        ("a" * 19, 1, {"seed": 2, **many}, True),  # the prompt fills the context
    ]
    found = serve(Engine(model), [(3 * n, begin(writer, *what)) for n, what in enumerate(whats)])
    assert [[text.reason for text in texts] for texts in found] == [["maximum"] * 2, ["context"], ["maximum"]]
    for texts, what in zip(found, whats, strict=True):
        compare(texts, alone(begin(writer, *what)))


def test_a_request_may_bring_another_when_it_has_its_turn(letters: Tokenizer) -> None:
    writer = Writer(network("gpt2", len(letters)), letters, CONTEXT)
    engine, second = Engine(writer.model), begin(writer, "d", 1, {"sample": False})

    class Bringing(Stream):
        def choose(self, turn: Turn) -> Choice:
            if not turn.written:
                engine.admit(second)
            return super().choose(turn)

    first = Bringing(writer, writer.read("abc"), writer.search.replace(max_tokens=5), [], 1, False)
    engine.admit(first)
    turns: list[tuple[dict[int, Piece], Request]] = []
    while engine.busy:
        turns += [(request.pieces, request) for request in engine.step() if isinstance(request, Stream)]
    compare(gather([second], turns)[0], alone(begin(writer, "d", 1, {"sample": False})))


def test_a_request_that_cannot_go_on_is_told_so_and_disturbs_nobody(letters: Tokenizer) -> None:
    """Nine letters come once each, and then only the end is left, which may not come yet."""
    writer = Writer(network("gpt2", len(letters)), letters, CONTEXT)
    engine = Engine(writer.model)
    first, broken = begin(writer, "ab", 1, {"seed": 3}), begin(writer, "c", 1, {"no_repeat": 1, "min_tokens": 11})
    last = begin(writer, "abc", 2, {"sample": False})
    pieces: dict[int, list[dict[int, Piece]]] = {0: [], 2: []}
    for step in range(20):
        for number, stream in enumerate((first, broken, last)):
            if step == number:
                engine.admit(stream)
        asked = engine.step()
        for number, stream in ((0, first), (2, last)):
            if stream in asked:
                pieces[number].append(stream.pieces)
    assert isinstance(broken.error, SpecError)
    assert "no_repeat=1" in str(broken.error)
    assert first.error is None and last.error is None
    compare(gather([first], [(each, first) for each in pieces[0]])[0], alone(begin(writer, "ab", 1, {"seed": 3})))
    compare(gather([last], [(each, last) for each in pieces[2]])[0], alone(begin(writer, "abc", 2, {"sample": False})))


def translator(name: str, seed: int = 0) -> Model:
    torch.manual_seed(seed)
    return stir(preset(name, width=32, depth=2, vocabulary=WORDS).build())


TRANSLATORS = ("transformer-tiny", "seq2seq", "bahdanau", "luong-feed", "mean-pool", "t5-small", "marian-base")

SEARCHES = [
    Search(max_tokens=12),
    Search(max_tokens=14, sample=True, seed=1),
    Search(max_tokens=9, beam=4, best=2),
    Search(max_tokens=12, sample=True, beam=3, best=3, seed=2, top_k=5),
    Search(max_tokens=10, beam=4, groups=2),
    Search(max_tokens=12, beam=3, no_repeat=2),
]


@pytest.mark.parametrize(
    "scorer",
    [
        *(translator(name) for name in TRANSLATORS),
        Ensemble([translator("transformer-tiny", 1), translator("luong-feed", 2)]),
    ],
    ids=[*TRANSLATORS, "ensemble"],
)
@torch.no_grad()
def test_searches_with_sources_of_any_length_share_an_engine(scorer: Any) -> None:
    """Greedy, samples, beams and groups, one sentence or two, each with its own source."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(1, 4), (2, 7), (1, 1), (1, 9), (2, 3), (1, 6)]
    sources = [torch.randint(2, WORDS, shape, generator=generator) for shape in shapes]
    demands = [Demands(), Demands(prefixes=[[3], [4, 5]]), *(Demands() for _ in range(4))]
    demands[2] = Demands(required=[[[5, 6]]])
    batches = [
        BeamBatch(scorer, scorer.encode(source), len(source), BEGIN, (END,), settings, wishes, attention=n != 3)
        for n, (source, settings, wishes) in enumerate(zip(sources, SEARCHES, demands, strict=True))
    ]
    engine = Engine(scorer)
    for batch in batches:
        engine.admit(batch)
        engine.step()
        engine.step()
    while engine.busy:
        engine.step()
    for batch, source, settings, wishes in zip(batches, sources, SEARCHES, demands, strict=True):
        memory, attention = scorer.encode(source), batch.attention
        expected = beam_search(scorer, memory, len(source), BEGIN, END, settings, wishes, attention=attention)
        for found, other in zip(batch.rank(), expected, strict=True):
            compare_hypotheses(found, other)


def compare_hypotheses(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [item.tokens for item in found] == [item.tokens for item in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-4)
        assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-4)
        if other.attention is None:
            assert one.attention is None
        else:
            assert one.attention is not None
            torch.testing.assert_close(one.attention, other.attention, atol=1e-4, rtol=1e-3)
