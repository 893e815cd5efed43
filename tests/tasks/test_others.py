"""Embedding, algorithms, regression, and translation by a decoder alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from regard.core.model import Model
from regard.data.batches import BatchSpec, make_batch
from regard.data.corpus import CorpusSpec
from regard.data.preparation import prepare
from regard.data.prepared import Prepared
from regard.data.tokenizer import TokenizerSpec
from regard.decode.prompted import Prompted
from regard.decode.search import Search, beam_search
from regard.models import preset
from regard.tasks.algorithm import AlgorithmTaskSpec
from regard.tasks.embedding import Embedder, EmbeddingTaskSpec, match_pairs, pool_states
from regard.tasks.entropy import cross_entropy
from regard.tasks.regression import RegressionTaskSpec
from regard.tasks.task import Pulse, TaskSpec
from regard.tasks.translation import TranslationTaskSpec, in_one, predict
from regard.train.optimizer import AdamW
from regard.train.schedule import Linear
from regard.train.spec import TrainSpec
from regard.train.trainer import Trainer


def ready(task: TaskSpec, corpus: dict[str, object], folder: Path, pieces: str = "given") -> Prepared:
    tokenizer = TokenizerSpec.parse({"pieces": pieces, "vocabulary": 200})
    return prepare(CorpusSpec.parse(corpus), task, tokenizer, 200, folder, folder / "data")[0]


def trained(
    task: TaskSpec, model: Model, prepared: Prepared, steps: int, tokens: int = 1024, rate: float = 0.005
) -> None:
    spec = TrainSpec(steps=steps, evaluate=0, optimizer=AdamW(rate=rate), schedule=Linear(warmup=10))
    Trainer(model, task.build(prepared, BatchSpec(tokens=tokens), 1), spec).run()
    model.eval()


COPY = {
    "kind": "copy",
    "train": 2000,
    "validation": 100,
    "test": 60,
    "sizes": [1, 4],
    "test_sizes": [1, 6],
    "symbols": 4,
}


@torch.no_grad()
def test_a_decoder_alone_reads_the_source_and_is_asked_for_the_target_only(tmp_path: Path) -> None:
    task = TranslationTaskSpec(joined=True)
    prepared = ready(task, COPY, tmp_path)
    tokenizer = prepared.lexicon.tokenizer
    sources, targets = tokenizer.encode(["a b c", "d"]), tokenizer.encode(["c b", "a a a"])
    batch = make_batch(sources, targets, tokenizer.pad, tokenizer.begin, tokenizer.end)
    inputs, kept = in_one(batch, tokenizer)
    tokens, valid = inputs.tokens, inputs.real
    texts = [tokenizer.pieces(row[real].tolist()) for row, real in zip(tokens, valid, strict=True)]
    assert texts == [["a", "b", "c", "[SEP]", "c", "b", "[EOS]"], ["d", "[SEP]", "a", "a", "a", "[EOS]"]]
    asked = [tokenizer.pieces(row[1:][mask].tolist()) for row, mask in zip(tokens, kept, strict=True)]
    assert asked == [["c", "b", "[EOS]"], ["a", "a", "a", "[EOS]"]]
    torch.manual_seed(1)
    model = preset("decoder-tiny", vocabulary=len(tokenizer), width=16, depth=1).build().eval()
    expected = 0.0
    for row, mask, real in zip(tokens, kept, valid, strict=True):
        size = int(real.sum())
        logits = model(row[None, : size - 1])[0]
        expected += float(F.cross_entropy(logits[mask[: size - 1]], row[1:size][mask[: size - 1]], reduction="sum"))
    found = predict(model, batch, tokenizer)
    assert found.sizes == [3, 4]
    assert float(cross_entropy(found.factors, found.targets)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", ["decoder-tiny", "lstm", "mamba-130m"])
def test_beam_search_after_a_prompt_finds_the_best_of_all(kind: str) -> None:
    """Two sources of different lengths, four words, answers of up to three tokens, by brute force."""
    torch.manual_seed(2)
    model = preset(kind, vocabulary=6, width=16, depth=1).build().eval()
    for weight in model.parameters():
        weight.data *= 2.5
    begin, end = 5, 1
    sources, valid = torch.tensor([[2, 3, 4, 1], [4, 1, 0, 0]]), torch.tensor([[True] * 4, [True, True, False, False]])
    scorer = Prompted(model)
    settings = Search(beam=40, max_tokens=2, length="none")
    found = beam_search(scorer, scorer.encode(sources, valid), 2, begin, end, settings)
    for row, source in enumerate(([2, 3, 4], [4])):
        best = max(
            (
                (score(model, [*source, begin, *middle, end], len(source)), [*middle, end])
                for length in range(3)
                for middle in itertools.product([token for token in range(6) if token != end], repeat=length)
            ),
        )
        assert found[row][0].tokens == best[1]
        assert found[row][0].score == pytest.approx(best[0], abs=1e-4)


@torch.no_grad()
def score(model: Model, tokens: list[int], before: int) -> float:
    logs = model(torch.tensor([tokens[:-1]]))[0].log_softmax(-1)
    return sum(float(logs[place, tokens[place + 1]]) for place in range(before, len(tokens) - 1))


@pytest.mark.parametrize("kind", ["decoder-tiny", "transformer-tiny"])
def test_an_algorithm_is_learned_and_told_by_size(tmp_path: Path, kind: str) -> None:
    spec = preset(kind, vocabulary=8, width=48, depth=2, heads=4, dropout=0.0)
    task = AlgorithmTaskSpec().adapt_to(spec)
    prepared = ready(task, COPY, tmp_path)
    torch.manual_seed(1)
    size = {"vocabulary": len(prepared.lexicon.tokenizer)}
    model = task.fit_model(preset(kind, width=48, depth=2, heads=4, dropout=0.0, **size), prepared.lexicon).build()
    trained(task, model, prepared, 300, tokens=512)
    pipeline = task.pipeline(model, prepared.lexicon)
    found = task.measure(pipeline, prepared.samples("validation"))
    assert found["exact"] > 0.9
    assert set(found["by_size"]) <= {1, 2, 3, 4}
    told = task.report_measures(
        {"exact": 0.75, "bleu": 1.0}, [{"source": "a", "target": "b", "size": 7}] * 4, list("bbbc")
    )
    assert told == {"exact": 0.75, "by_size": {7: 0.75}}


@pytest.mark.parametrize("position", ["none", "sinusoidal", "learned", "rotary", "alibi", "bucketed"])
@pytest.mark.parametrize("scatter", [0, 64])
def test_every_position_scheme_steps_as_it_reads(position: str, scatter: int) -> None:
    if scatter and position not in ("sinusoidal", "learned", "rotary"):
        return
    torch.manual_seed(1)
    settings = {"position": position, "scatter": scatter, "context": 64, "vocabulary": 9, "width": 32, "depth": 2}
    model = preset("decoder-tiny", **settings).build().eval()
    tokens = torch.randint(9, (2, 7))
    with torch.no_grad():
        whole, state = model(tokens), model.start(2)
        steps = torch.stack([model.step(token, state) for token in tokens.unbind(1)], 1)
    torch.testing.assert_close(steps, whole, atol=1e-5, rtol=1e-4)


def test_scattered_positions_are_drawn_in_order_for_each_row_while_training() -> None:
    from regard.core.stack import scatter_positions
    from regard.core.view import View

    view = View.of(torch.zeros(50, 6, 1), torch.ones(50, 6, dtype=torch.bool).tril(3))
    torch.manual_seed(1)
    places = scatter_positions(view, 64, training=True)
    assert bool((places[:, 1:] >= places[:, :-1]).all())
    assert int(places.max()) > 40
    assert int(places.max()) < 64
    assert not torch.equal(places, scatter_positions(view, 64, training=True))
    used = scatter_positions(view, 64, training=False)
    assert torch.equal(used, scatter_positions(view, 64, training=False))


def test_texts_that_mean_the_same_come_together(tmp_path: Path) -> None:
    task = EmbeddingTaskSpec()
    corpus = {"kind": "en-fr", "train": 600, "validation": 60, "test": 0, "combinations": 0, "level": "first"}
    prepared = ready(task, corpus, tmp_path, "bpe")
    torch.manual_seed(1)
    settings = {"vocabulary": len(prepared.lexicon.tokenizer), "width": 32, "depth": 1, "heads": 2, "dropout": 0.0}
    model = task.fit_model(preset("bert-tiny", **settings, context=128), prepared.lexicon).build()
    pipeline = task.pipeline(model.eval(), prepared.lexicon)
    before = match_pairs(pipeline, prepared.samples("validation"))["found"]
    trained(task, model, prepared, 80)
    found = task.measure(pipeline, prepared.samples("validation"))
    assert found["found"] > max(0.5, before)
    assert found["found_low"] <= found["found"] <= found["found_high"]
    vectors = pipeline.embed(["The cat sleeps.", "I like bread."])
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(2))
    alone = pipeline.embed(["I like bread."])
    torch.testing.assert_close(vectors[1], alone[0], atol=1e-5, rtol=1e-4)


def test_a_model_that_makes_one_vector_of_everything_finds_nothing() -> None:
    class Same(Embedder):
        def embed(
            self, texts: Sequence[str], pulse: Pulse = lambda: None, *, prompt: str | None = None, cut: bool = False
        ) -> torch.Tensor:
            return torch.ones(len(texts), 4) / 2

    samples = [{"source": str(n), "target": str(n)} for n in range(5)]
    found = match_pairs(Same(None, None), samples)  # type: ignore[arg-type]
    assert found["found"] == 0
    assert found["reciprocal_rank"] == pytest.approx(1 / 5)


@torch.no_grad()
def test_the_loss_of_pairs_is_both_ways_over_the_batch(tmp_path: Path) -> None:
    task = EmbeddingTaskSpec(scale=10.0)
    corpus = {"kind": "en-fr", "train": 50, "validation": 10, "test": 0, "combinations": 0, "level": "first"}
    prepared = ready(task, corpus, tmp_path, "bpe")
    torch.manual_seed(1)
    settings = {"vocabulary": len(prepared.lexicon.tokenizer), "width": 16, "depth": 1, "heads": 2, "dropout": 0.0}
    model = task.fit_model(preset("bert-tiny", **settings, attention_dropout=0.0), prepared.lexicon).build()
    learner = task.build(prepared, BatchSpec(tokens=200), 1)
    places = learner.batches(0, 0)
    batch = next(places).batch
    places.close()
    one, other = (
        pool_states(model, batch.source),
        pool_states(model, batch.target),
    )
    expected = 0.0
    for n in range(len(one)):
        forward = torch.stack([10 * F.cosine_similarity(one[n], row, dim=0) for row in other])
        backward = torch.stack([10 * F.cosine_similarity(row, other[n], dim=0) for row in one])
        expected -= float(forward.log_softmax(0)[n] + backward.log_softmax(0)[n]) / 2
    assert float(learner.loss(model, batch)) == pytest.approx(expected, rel=1e-4)


def test_a_recurrence_learns_the_adding_problem_of_a_few_numbers(tmp_path: Path) -> None:
    task = RegressionTaskSpec()
    prepared = ready(task, {"kind": "adding", "train": 3000, "validation": 100, "test": 0, "sizes": [6, 8]}, tmp_path)
    torch.manual_seed(1)
    model = task.fit_model(preset("gru", vocabulary=260, width=32, depth=1, dropout=0.0), prepared.lexicon).build()
    trained(task, model, prepared, 400, tokens=256)
    pipeline = task.pipeline(model, prepared.lexicon)
    found = task.measure(pipeline, prepared.samples("validation"))
    assert found["error"] < 0.02  # chance is 1/6
    assert found["error_low"] <= found["error"] <= found["error_high"]
    assert set(found["error_by_size"]) == {6, 7, 8}
    one = prepared.samples("validation")[:1]
    alone = pipeline.predict(one[0]["values"], one[0]["marks"]) - one[0]["target"]
    assert pipeline.measure(one)["error"] == pytest.approx(alone**2, abs=1e-6)
    short, long = ({"values": [0.5] * size, "marks": [1, *[0] * (size - 2), 1], "target": 1.0} for size in (6, 8))
    among = pipeline.measure([long, short])["error_by_size"]  # the short one is padded there, and not here
    assert among[6] == pytest.approx(pipeline.measure([short])["error"], abs=1e-6)
    assert pipeline.predict([0.5, 0.2, 0.9, 0.1, 0.3, 0.4, 0.6, 0.8], [1, 0, 0, 0, 0, 0, 0, 1]) == pytest.approx(
        1.3, abs=0.5
    )
