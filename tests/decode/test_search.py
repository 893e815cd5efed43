"""Search against brute force, on models small enough to try every sentence."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from regard.core.model import Model
from regard.core.probe import Record
from regard.decode.ensemble import Ensemble
from regard.decode.filters import Demands
from regard.decode.search import Hypothesis, Search, beam_search
from regard.errors import InputError, RegardError, SpecError
from regard.models import preset

WORDS, BEGIN, END, LONGEST = 5, 0, 1, 4
SOURCES = torch.randint(2, WORDS, (3, 6), generator=torch.Generator().manual_seed(0))
VALID = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [True] * 5 + [False]])


def made(name: str = "transformer-tiny", seed: int = 0) -> Model:
    torch.manual_seed(seed)
    model = preset(name, width=16, depth=1, vocabulary=WORDS).build().eval()
    with torch.no_grad():
        for path, weight in model.named_parameters():
            if path.endswith(("tokens.weight", "head.bias")):
                weight.normal_(std=1.5)
    return model


MODELS = {name: made(name) for name in ("transformer-tiny", "seq2seq", "bahdanau", "luong-feed", "mean-pool")}


def every_sentence() -> list[list[int]]:
    inside = [word for word in range(WORDS) if word != END]
    lengths = range(LONGEST + 1)
    return [[*words, END] for length in lengths for words in itertools.product(inside, repeat=length)]


def scored(model: Any, row: int, settings: Search) -> list[Hypothesis]:
    """Every sentence with its score, best first."""
    memory = model.encode(SOURCES[row : row + 1], VALID[row : row + 1])
    found = []
    for sentence in every_sentence():
        inputs = torch.tensor([[BEGIN, *sentence[:-1]]])
        logs = model(inputs, memory).log_softmax(-1)[0, range(len(sentence)), sentence].tolist()
        found.append(Hypothesis(sentence, logs, sum(logs) / settings.norm(len(sentence))))
    return sorted(found, key=lambda item: -item.score)


def run(model: Any, settings: Search, demands: Demands | None = None, **more: Any) -> list[list[Hypothesis]]:
    return beam_search(model, model.encode(SOURCES, VALID), 3, BEGIN, END, settings, demands, **more)


WIDE = WORDS**LONGEST  # a beam that forgets nothing


@pytest.mark.parametrize("length", ["gnmt", "average", "none"])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_a_wide_beam_finds_the_best_of_all_sentences(name: str, length: Any) -> None:
    settings = Search(beam=WIDE, best=4, length=length, max_tokens=LONGEST)
    for row, found in enumerate(run(MODELS[name], settings)):
        expected = scored(MODELS[name], row, settings)[:4]
        assert [item.tokens for item in found] == [item.tokens for item in expected]
        for mine, reference in zip(found, expected, strict=True):
            assert mine.score == pytest.approx(reference.score, abs=1e-4)
            assert mine.log_probabilities == pytest.approx(reference.log_probabilities, abs=1e-4)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_greedy_takes_the_best_word_each_time(name: str) -> None:
    model = MODELS[name]
    for row, (found,) in enumerate(run(model, Search(max_tokens=12))):
        memory, written = model.encode(SOURCES[row : row + 1], VALID[row : row + 1]), [BEGIN]
        while written[-1] != END and len(written) < 13:  # without the state: the prefix is run again
            written.append(int(model(torch.tensor([written]), memory)[0, -1].argmax()))
        assert found.tokens == (written[1:] if written[-1] == END else [*written[1:], END])


@pytest.mark.parametrize(
    "settings", [Search(beam=3, best=3, max_tokens=9), Search(beam=4, groups=2, max_tokens=9)], ids=str
)
@torch.no_grad()
def test_a_batch_is_its_sentences_one_by_one(settings: Search) -> None:
    for model in MODELS.values():
        for row, found in enumerate(run(model, settings)):
            length = int(VALID[row].sum())
            memory = model.encode(SOURCES[row : row + 1, :length])
            (alone,) = beam_search(model, memory, 1, BEGIN, END, settings)
            assert [item.tokens for item in found] == [item.tokens for item in alone]
            assert [item.score for item in found] == pytest.approx([item.score for item in alone], abs=1e-4)


@torch.no_grad()
def test_attention_follows_the_winner_and_sums_to_one() -> None:
    for name in ("transformer-tiny", "bahdanau"):
        model = MODELS[name]
        for row, found in enumerate(run(model, Search(beam=4, best=2, max_tokens=8), attention=True)):
            for item in found:
                assert item.attention is not None
                assert item.attention.shape == (len(item.tokens), 6)
                torch.testing.assert_close(item.attention.sum(-1), torch.ones(len(item.tokens)))
                assert (item.attention[:, ~VALID[row]] == 0).all()
                memory = model.encode(SOURCES[row : row + 1], VALID[row : row + 1])
                record = Record(*model.alignments)
                model(torch.tensor([[BEGIN, *item.tokens[:-1]]]), memory, probe=record)
                maps = torch.stack([record[path] for path in record]).mean((0, 2))[0]
                torch.testing.assert_close(item.attention, maps, atol=1e-4, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("name", ["transformer-tiny", "bahdanau", "luong-feed"])
@pytest.mark.parametrize(
    "settings", [Search(beam=4, best=3, max_tokens=8), Search(beam=3, best=2, sample=True, max_tokens=8)]
)
def test_every_hypothesis_carries_all_heads_of_all_layers_along_its_ancestry(name: str, settings: Search) -> None:
    """Its own, not those of the row that it stood in: as if it were read with nobody beside it."""
    model = MODELS[name]
    for row, found in enumerate(run(model, settings, attention="*weights")):
        for item in found:
            assert item.attention is None
            memory = model.encode(SOURCES[row : row + 1], VALID[row : row + 1])
            record = Record("decoder.*weights")
            model(torch.tensor([[BEGIN, *item.tokens[:-1]]]), memory, probe=record)
            assert set(item.weights) == set(record)
            for path, weights in item.weights.items():
                assert weights.shape[1] == len(item.tokens)
                torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))
                torch.testing.assert_close(weights, record[path][0], atol=1e-4, rtol=1e-4)


def test_weights_that_no_decoder_has_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"nothing here is called \*\.crossed\.weights"):
        run(MODELS["transformer-tiny"], Search(), attention="*.crossed.weights")


@torch.no_grad()
def test_coverage_is_gnmts_penalty() -> None:
    model = MODELS["transformer-tiny"]
    plain = run(model, Search(beam=WIDE, best=20, max_tokens=LONGEST), attention=True)
    held = run(model, Search(beam=WIDE, best=20, max_tokens=LONGEST, coverage=0.4))
    for before, after in zip(plain, held, strict=True):
        scores = {}
        for item in before:
            assert item.attention is not None
            looked = item.attention.sum(0)
            scores[tuple(item.tokens)] = item.score + 0.4 * float(looked[looked > 0].clamp(max=1).log().sum())
        both = [item for item in after if tuple(item.tokens) in scores]
        assert len(both) > 5
        for item in both:
            assert item.score == pytest.approx(scores[tuple(item.tokens)], abs=1e-4)


@torch.no_grad()
def test_required_words_appear_in_the_best_sentence_that_has_them() -> None:
    model, settings = MODELS["transformer-tiny"], Search(beam=WIDE, max_tokens=LONGEST)
    required = [[[3, 2]], [[4], [2]], []]
    for row, (found,) in enumerate(run(model, settings, Demands(required=required))):

        def has(sentence: list[int], phrase: list[int]) -> bool:
            return any(sentence[at : at + len(phrase)] == phrase for at in range(len(sentence)))

        fitting = [s for s in scored(model, row, settings) if all(has(s.tokens, p) for p in required[row])]
        assert found.tokens == fitting[0].tokens


@torch.no_grad()
def test_required_words_appear_even_in_a_narrow_beam() -> None:
    required = [[[3, 2]], [[4], [2, 2]], [[3]]]
    for model in MODELS.values():
        for row, (found,) in enumerate(run(model, Search(beam=3, max_tokens=12), Demands(required=required))):
            text = " ".join(map(str, found.tokens))
            for phrase in required[row]:
                assert " ".join(map(str, phrase)) in text


@torch.no_grad()
def test_prefixes_and_bans_hold_and_the_best_that_keeps_to_them_is_found() -> None:
    model, settings = MODELS["luong-feed"], Search(beam=WIDE, max_tokens=LONGEST, min_tokens=2)
    demands = Demands(prefixes=[[4], [], [2, 3]], banned=[[3, 3], [0]])
    for row, (found,) in enumerate(run(model, settings, demands)):
        assert demands.prefixes is not None
        begin = list(demands.prefixes[row])
        fitting = [
            s.tokens
            for s in scored(model, row, settings)
            if s.tokens[: len(begin)] == begin
            and len(s.tokens) > 2
            and 0 not in s.tokens
            and (3, 3) not in itertools.pairwise(s.tokens)
        ]
        assert found.tokens == fitting[0]


def diverse_by_hand(model: Model, row: int, groups: int, diversity: float, settings: Search) -> Hypothesis:
    """Groups of one row each, in turn, without a state: a word costs more once a group before has chosen it."""
    memory = model.encode(SOURCES[row : row + 1], VALID[row : row + 1])
    written: list[list[int]] = [[] for _ in range(groups)]
    logs: list[list[float]] = [[] for _ in range(groups)]
    finished: list[Hypothesis] = []
    assert settings.max_tokens is not None
    for step in range(settings.max_tokens + 1):
        cost, once = torch.zeros(WORDS), False
        for group in range(groups):
            own = model(torch.tensor([[BEGIN, *written[group]]]), memory)[0, -1].log_softmax(-1)
            order = (own - diversity * cost).argsort(descending=True).tolist()
            if order[0] == END or step == settings.max_tokens:
                if step or not once:  # before the first word all groups are one
                    tokens, total = [*written[group], END], [*logs[group], float(own[END])]
                    finished.append(Hypothesis(tokens, total, sum(total) / settings.norm(len(tokens))))
                    cost[END] += 1
                once = True
            word = next(word for word in order if word != END)
            cost[word] += 1
            written[group] = [*written[group], word]
            logs[group] = [*logs[group], float(own[word])]
    return max(finished, key=lambda item: item.score)


@pytest.mark.parametrize("diversity", [0.0, 0.3, 0.9])
@torch.no_grad()
def test_diverse_groups_are_their_definition(diversity: float) -> None:
    settings = Search(beam=3, groups=3, diversity=diversity, max_tokens=5)
    for model in MODELS.values():
        for row, (found,) in enumerate(run(model, settings)):
            expected = diverse_by_hand(model, row, 3, diversity, settings)
            assert found.tokens == expected.tokens
            assert found.score == pytest.approx(expected.score, abs=1e-4)


@torch.no_grad()
def test_samples_follow_the_models_distribution_and_the_seed() -> None:
    model = MODELS["transformer-tiny"]
    settings = Search(sample=True, beam=400, best=400, max_tokens=3, length="none")
    found = run(model, settings)
    assert [[item.tokens for item in row] for row in run(model, settings)] == [[i.tokens for i in row] for row in found]
    other = run(model, settings.replace(seed=1))
    assert [[item.tokens for item in row] for row in other] != [[item.tokens for item in row] for row in found]
    memory = model.encode(SOURCES, VALID)
    first = model(torch.full((3, 1), BEGIN), memory).softmax(-1)[:, 0]
    for row in range(3):
        counts = torch.zeros(WORDS)
        for item in found[row]:
            counts[item.tokens[0]] += 1
        assert (counts / 400 - first[row]).abs().max() < 0.1


@torch.no_grad()
def test_a_sentences_samples_do_not_depend_on_its_neighbours() -> None:
    model, settings = MODELS["seq2seq"], Search(sample=True, beam=3, best=3, max_tokens=9, top_k=4, temperature=0.8)
    together = run(model, settings)
    (alone,) = beam_search(model, model.encode(SOURCES[:1], VALID[:1]), 1, BEGIN, END, settings)
    assert [item.tokens for item in together[0]] == [item.tokens for item in alone]


@torch.no_grad()
def test_an_ensemble_is_the_mean_of_its_models() -> None:
    models = [made(seed=1), made("luong-feed", seed=2)]
    ensemble = Ensemble(models)
    settings = Search(beam=WIDE, best=3, max_tokens=3)
    found = beam_search(ensemble, ensemble.encode(SOURCES, VALID), 3, BEGIN, END, settings, attention=True)
    for row in range(3):
        memories = [model.encode(SOURCES[row : row + 1], VALID[row : row + 1]) for model in models]
        best: list[tuple[float, list[int]]] = []
        for sentence in every_sentence():
            if len(sentence) <= 4:
                inputs = torch.tensor([[BEGIN, *sentence[:-1]]])
                pairs = zip(models, memories, strict=True)
                mean = torch.stack([model(inputs, memory).softmax(-1) for model, memory in pairs]).mean(0).log()
                total = float(mean[0, range(len(sentence)), sentence].sum())
                best.append((total / settings.norm(len(sentence)), sentence))
        assert [item.tokens for item in found[row]] == [sentence for _, sentence in sorted(best, reverse=True)[:3]]


@torch.no_grad()
def test_finished_sentences_leave_the_batch() -> None:
    """The model is asked about fewer rows as sentences end."""

    class Counting:
        def __init__(self, model: Model) -> None:
            self.model, self.rows = model, []  # type: ignore[var-annotated]
            self.alignments, self.device, self.names = model.alignments, model.device, model.names

        def start(self, rows: int, memory: Any = None, *, room: int = 0) -> Any:
            return self.model.start(rows, memory, room=room)

        def step(self, tokens: torch.Tensor, state: Any, *, probe: Any = None) -> torch.Tensor:
            self.rows.append(len(tokens))
            return self.model.step(tokens, state, probe=probe)

    counting = Counting(MODELS["transformer-tiny"])
    demands = Demands(prefixes=[[END], [3, END], [3, 3, 3, END]])
    beam_search(counting, counting.model.encode(SOURCES, VALID), 3, BEGIN, END, Search(), demands)
    assert counting.rows == [3, 2, 1, 1]


@pytest.mark.parametrize(
    "settings",
    [{"beam": 5, "groups": 2}, {"beam": 2, "best": 3}, {"min_tokens": 9, "max_tokens": 3}, {"beem": 2}],
    ids=str,
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(
        SpecError, match=next(iter(reversed(settings))) if "min_tokens" not in settings else "min_tokens"
    ):
        Search.parse(settings)


@pytest.mark.parametrize("how", [{"beam": 3}, {"beam": 4, "groups": 2}, {"sample": True}, {}], ids=str)
@torch.no_grad()
def test_rules_that_leave_nothing_are_named_however_it_is_searched(how: dict[str, Any]) -> None:
    """Four words can be written once each, and then nothing is left but the end, which may not come yet."""
    settings = Search(no_repeat=1, min_tokens=9, max_tokens=20, **how)
    with pytest.raises(SpecError, match=r"after 3 tokens.*no_repeat=1 and the banned words and min_tokens=9") as error:
        run(MODELS["transformer-tiny"], settings, Demands(banned=[[0]]))
    assert "a smaller minimum" in error.value.hint


@pytest.mark.parametrize("how", [{"beam": 3}, {"sample": True}], ids=str)
@torch.no_grad()
def test_a_prefix_that_is_banned_is_named(how: dict[str, Any]) -> None:
    demands = Demands(prefixes=[[], [3, 4], []], banned=[[3, 4]])
    with pytest.raises(SpecError, match=r"after 1 tokens: the banned words and the prefix exclude all 5"):
        run(MODELS["seq2seq"], Search(max_tokens=6, **how), demands)


@pytest.mark.parametrize("how", [{"beam": 3}, {"beam": 4, "groups": 2}, {"sample": True}], ids=str)
@torch.no_grad()
def test_only_scores_that_are_no_numbers_are_called_damaged(how: dict[str, Any]) -> None:
    model = made()
    for weight in model.parameters():
        weight.fill_(torch.nan)
    with pytest.raises(RegardError, match="weights are damaged"):
        run(model, Search(**how))


@torch.no_grad()
def test_a_group_without_continuations_leaves_the_others_their_places() -> None:
    """Words come once each, so groups run dry at different steps; what they finished before is the answer."""
    settings = Search(beam=4, groups=4, best=4, no_repeat=1, diversity=0.9, max_tokens=20)
    for found in run(MODELS["transformer-tiny"], settings):
        for item in found:
            assert len(set(item.tokens)) == len(item.tokens)
            assert item.score == pytest.approx(sum(item.log_probabilities) / settings.norm(len(item.tokens)), abs=1e-4)


@pytest.mark.parametrize("how", [{"beam": 4, "groups": 2}, {"beam": 4, "sample": True}], ids=str)
def test_required_words_are_refused_where_they_cannot_be_kept(how: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="required words") as error:
        run(MODELS["transformer-tiny"], Search(**how), Demands(required=[[[3]], [], []]))
    assert error.value.hint in ("groups=1", "sample=false")


def test_coverage_is_refused_where_nothing_looks_at_the_source() -> None:
    with pytest.raises(SpecError, match=r"coverage: 0\.4"):
        run(MODELS["seq2seq"], Search(beam=3, coverage=0.4))


@torch.no_grad()
def test_a_model_without_attention_gives_none() -> None:
    for (found,) in run(MODELS["seq2seq"], Search(beam=3, max_tokens=6), attention=True):
        assert found.attention is None


@pytest.mark.parametrize("how", [{"beam": 3}, {"sample": True}], ids=str)
@torch.no_grad()
def test_a_cut_is_told_from_an_end(how: dict[str, Any]) -> None:
    """With no room for more, a sentence is cut exactly where the model's best word wasn't the end."""
    cuts = set()
    for model, words in itertools.product(MODELS.values(), range(1, 5)):
        for row, (found,) in enumerate(run(model, Search(max_tokens=words, **how))):
            memory = model.encode(SOURCES[row : row + 1], VALID[row : row + 1])
            last = model(torch.tensor([[BEGIN, *found.tokens[:-1]]]), memory)[0, -1]
            assert found.cut == (len(found.tokens) == words + 1 and int(last.argmax()) != END)
            cuts.add(found.cut)
    assert cuts == {True, False}


@torch.no_grad()
def test_each_sentence_has_a_limit_of_its_own_and_the_bound_is_exact_there_too() -> None:
    model, settings = MODELS["luong-feed"], Search(beam=WIDE, best=3)
    most = [1, 3, 2]
    for row, found in enumerate(run(model, settings, Demands(most=most))):
        expected = [item for item in scored(model, row, settings) if len(item.tokens) <= most[row] + 1][:3]
        assert [item.tokens for item in found] == [item.tokens for item in expected]
