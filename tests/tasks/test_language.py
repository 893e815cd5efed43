"""Language modelling: rows are full, every prediction counts once, and documents don't know of each other."""

from __future__ import annotations

import math
from collections import Counter
from itertools import chain, islice, pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from regard.core.model import Model
from regard.data.batches import BatchSpec
from regard.data.corpus import CorpusSpec
from regard.data.preparation import prepare
from regard.data.prepared import Prepared
from regard.data.tokenizer import TokenizerSpec
from regard.models import preset
from regard.tasks.documents import Span, pack
from regard.tasks.language import LanguageBatch, LanguageTask, LanguageTaskSpec, assess, chunks, divide
from regard.tasks.window import windows
from regard.train.costs import Costs
from regard.train.optimizer import AdamW
from regard.train.schedule import Constant
from regard.train.spec import TrainSpec
from regard.train.trainer import Trainer

DOCUMENTS = ["abcabc", "a", "cab" * 9, "bacb", "abc" * 5, "c"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("documents")
    (folder / "text.txt").write_text("\n".join(DOCUMENTS) + "\n")
    reader = {"kind": "documents", "path": "text.txt", "unit": "line"}
    corpus = CorpusSpec.parse({"kind": "files", "train": reader, "validation": reader})
    return prepare(corpus, LanguageTaskSpec(), TokenizerSpec(pieces="character"), 100, folder, folder / "data")[0]


def small(kind: str, size: int, **settings: int) -> Model:
    torch.manual_seed(1)
    return preset(kind, vocabulary=size, width=16, depth=1, **settings).build().eval()


def learn(prepared: Prepared, **settings: object) -> LanguageTask:
    return LanguageTaskSpec(context=8, **settings).build(prepared, BatchSpec(tokens=24), 5)


def epoch(task: LanguageTask) -> list[LanguageBatch]:
    places = task.batches(0, 0)
    try:
        found: list[LanguageBatch] = []
        for place in places:
            if place.epoch:
                return found
            found.append(place.batch)
    finally:
        places.close()
    return found


def test_rows_are_full_and_hold_every_prediction_of_an_epoch_once(prepared: Prepared) -> None:
    tokenizer, batches = prepared.lexicon.tokenizer, epoch(learn(prepared))
    rows = [row for batch in batches for row in batch.inputs.real.sum(1).tolist()]
    assert sum(size < 8 for size in rows) <= 2  # the first and the last
    assert sum(rows) == sum(len(text) + 1 for text in DOCUMENTS)
    pairs = Counter[tuple[int, int]]()
    for batch in batches:
        inputs, real = batch.inputs, batch.inputs.real
        pairs.update(zip(inputs.tokens[real].tolist(), batch.targets[real].tolist(), strict=True))
    expected = Counter[tuple[int, int]]()
    for row in tokenizer.encode(DOCUMENTS):
        whole = [tokenizer.begin, *row, tokenizer.end]
        expected.update(pairwise(whole))
    assert pairs == expected


def test_the_order_follows_from_seed_and_epoch(prepared: Prepared) -> None:
    one, other = epoch(learn(prepared)), epoch(learn(prepared))
    assert all(torch.equal(a.inputs.tokens, b.inputs.tokens) for a, b in zip(one, other, strict=True))
    places = learn(prepared).batches(0, 2)
    try:
        resumed = next(places)
    finally:
        places.close()
    assert torch.equal(resumed.batch.inputs.tokens, one[2].inputs.tokens)


@pytest.mark.parametrize("kind", ["gpt2", "lstm", "mamba-130m", "decoder-tiny"])
@torch.no_grad()
def test_the_loss_of_packed_rows_is_that_of_the_documents_alone(prepared: Prepared, kind: str) -> None:
    """Pieces that begin inside a document are compared as they are: alone, without what came before."""
    tokenizer, task = prepared.lexicon.tokenizer, learn(prepared)
    model = small(kind, len(tokenizer), **({"context": 8, "heads": 2} if kind == "gpt2" else {}))
    batch = epoch(task)[0]
    owners = batch.inputs.owners
    assert owners is not None and bool((owners != owners[:, :1]).any())  # there is something to keep apart
    expected = 0.0
    for row in range(len(batch.inputs.tokens)):
        for document in owners[row].unique():
            kept = (owners[row] == document) & batch.inputs.real[row]
            if kept.any():
                logits = model(batch.inputs.tokens[row][kept][None])[0]
                expected += float(F.cross_entropy(logits, batch.targets[row][kept], reduction="sum"))
    assert float(task.loss(model, batch)) == pytest.approx(expected, rel=1e-4)


def test_windows_count_each_prediction_once_and_see_enough_before_it() -> None:
    for size in (1, 7, 8, 9, 40):
        found = list(windows(size, 8, 3))
        assert [place for view in found for place in range(view.scored, view.last)] == list(range(size))
        assert all(view.scored - view.first >= 8 - 3 for view in found[1:])
        assert all(view.last - view.first <= 8 for view in found)


def test_an_evaluation_is_the_mean_over_the_whole_text_by_brute_force(prepared: Prepared) -> None:
    tokenizer = prepared.lexicon.tokenizer
    model = small("gpt2", len(tokenizer), context=8, heads=2)
    samples = prepared.samples("validation")
    found = assess(model, tokenizer, samples, LanguageTaskSpec(context=8, stride=3))
    total, count = 0.0, 0
    for row in tokenizer.encode(DOCUMENTS):
        whole = [tokenizer.begin, *row, tokenizer.end]
        for view in windows(len(whole) - 1, 8, 3):
            with torch.no_grad():
                logs = model(torch.tensor([whole[view.first : view.last]]))[0].log_softmax(-1)
            for place in range(view.scored, view.last):
                total -= float(logs[place - view.first, whole[place + 1]])
                count += 1
    assert found["loss"] == pytest.approx(total / count, rel=1e-5)
    assert found["predictions"] == count
    assert found["perplexity"] == pytest.approx(math.exp(total / count), rel=1e-5)
    assert found["bits_per_byte"] == pytest.approx(total / math.log(2) / sum(map(len, DOCUMENTS)), rel=1e-5)
    assert found["loss_low"] <= found["loss"] <= found["loss_high"]


def test_a_model_that_carries_its_state_is_evaluated_in_one_reading(prepared: Prepared) -> None:
    tokenizer = prepared.lexicon.tokenizer
    model, samples = small("lstm", len(tokenizer)), prepared.samples("validation")
    carried = assess(model, tokenizer, samples, LanguageTaskSpec(context=2, carry=True))
    whole = assess(model, tokenizer, samples, LanguageTaskSpec(context=100))
    assert carried["loss"] == pytest.approx(whole["loss"], rel=1e-5)


def test_the_parts_of_a_carried_corpus_are_even_and_whole() -> None:
    documents = [(0, 7), (1, 1), (2, 12), (3, 4)]
    parts = divide(documents, 3)
    assert [sum(piece.last - piece.first for piece in part) for part in parts] == [8, 8, 8]
    places = [(piece.document, place) for piece in chain(*parts) for place in range(piece.first, piece.last)]
    assert places == [(document, place) for document, size in documents for place in range(size)]
    assert list(chunks([Span(2, 3, 12)], 4)) == [*(Span(2, 3, 7, True), Span(2, 7, 11, False), Span(2, 11, 12, False))]


@pytest.mark.parametrize("kind", ["lstm", "gru", "ssm", "mamba-130m"])
def test_carried_losses_are_those_of_documents_read_in_one_go(prepared: Prepared, kind: str) -> None:
    """A row's losses, chunk after chunk, are those of its documents as wholes: the state was carried, and renewed."""
    tokenizer = prepared.lexicon.tokenizer
    model, task = small(kind, len(tokenizer)), learn(prepared, carry=True)
    batches = epoch(task)
    with torch.no_grad():
        found = 0.0
        for batch in batches:
            found += float(task.loss(model, batch))
            task.settle()
        expected = 0.0
        for row in range(len(batches[0].targets)):
            document: list[tuple[torch.Tensor, torch.Tensor]] = []
            for read in (*batches, None):
                assert read is None or read.fresh is not None
                if document and (read is None or read.fresh is None or bool(read.fresh[row])):
                    tokens, targets = (torch.cat(parts) for parts in zip(*document, strict=True))
                    expected += float(F.cross_entropy(model(tokens[None])[0], targets, reduction="sum"))
                    document = []
                if read is not None:
                    real = read.inputs.real[row]
                    document.append((read.inputs.tokens[row][real], read.targets[row][real]))
    assert found == pytest.approx(expected, rel=1e-4)


@torch.no_grad()
def test_what_is_carried_survives_a_checkpoint(prepared: Prepared) -> None:
    model, task = small("lstm", len(prepared.lexicon.tokenizer)), learn(prepared, carry=True)
    batches = epoch(task)
    task.loss(model, batches[0])
    task.settle()
    other = learn(prepared, carry=True)
    other.recall(model, {name: tensor.clone() for name, tensor in task.memory().items()})
    assert float(task.loss(model, batches[1])) == float(other.loss(model, batches[1]))


def test_gradients_stop_between_chunks(prepared: Prepared) -> None:
    model, task = small("lstm", len(prepared.lexicon.tokenizer)).train(), learn(prepared, carry=True)
    batches = epoch(task)
    for batch in islice(batches, 2):
        task.loss(model, batch).backward()  # a graph that went through both would be freed by now
        task.settle()
    assert task.state is not None


def test_several_chunks_may_make_one_step(prepared: Prepared) -> None:
    model, task = small("gru", len(prepared.lexicon.tokenizer)), learn(prepared, carry=True)
    plan = TrainSpec(steps=2, accumulate=3, evaluate=0)
    assert Trainer(model, task, plan).run().moment.step == 2


@torch.no_grad()
def test_elmo_learns_the_next_and_the_last_word_together(prepared: Prepared) -> None:
    tokenizer, task = prepared.lexicon.tokenizer, learn(prepared)
    torch.manual_seed(1)
    model = preset("elmo", vocabulary=len(tokenizer), width=16, depth=1).build().eval()
    batch = epoch(task)[0]
    owners = batch.inputs.owners
    assert owners is not None
    expected = 0.0
    for row in range(len(batch.inputs.tokens)):
        for document in owners[row].unique():
            kept = (owners[row] == document) & batch.inputs.real[row]
            if not kept.any():
                continue
            tokens, targets = batch.inputs.tokens[row][kept], batch.targets[row][kept]
            logits = model(tokens[None])[0]  # (time, directions, vocabulary)
            expected += float(F.cross_entropy(logits[:, 0], targets, reduction="sum")) / 2
            if len(tokens) > 1:
                expected += float(F.cross_entropy(logits[1:, 1], tokens[:-1], reduction="sum")) / 2
    assert float(task.loss(model, batch)) == pytest.approx(expected, rel=1e-4)


PRESETS: dict[str, dict[str, int]] = {
    **{name: {} for name in ("rnn", "lstm", "gru", "ssm", "ntm", "mamba-130m")},
    "gpt2": {"heads": 2},
    "gpt3-small": {"heads": 2, "band": 4, "depth": 2},
    "llama-tiny": {"heads": 2, "kv_heads": 1},
    "mistral-7b": {"heads": 2, "kv_heads": 1, "window": 4, "hidden": 24},
    "mixtral-8x7b": {"heads": 2, "kv_heads": 1, "hidden": 8},
    "deepseek-tiny": {},
    "hybrid": {"depth": 4},
}


@pytest.mark.parametrize("kind", PRESETS)
def test_any_causal_mixer_learns_a_language(prepared: Prepared, kind: str) -> None:
    """Six documents of three letters: every architecture gets far below chance in a few steps."""
    torch.manual_seed(1)
    size = {"vocabulary": len(prepared.lexicon.tokenizer), "width": 32, "depth": 1}
    if kind == "deepseek-tiny":
        del size["width"]
    spec = LanguageTaskSpec(context=16).fit_model(preset(kind, **(size | PRESETS[kind])), prepared.lexicon)
    model, task = spec.build(), LanguageTaskSpec(context=16).build(prepared, BatchSpec(tokens=128), 1)
    before = assess(model.eval(), prepared.lexicon.tokenizer, prepared.samples("validation"), task.spec)["loss"]
    plan = TrainSpec(steps=25, evaluate=0, optimizer=AdamW(rate=0.01), schedule=Constant())
    Trainer(model, task, plan).run()
    found = task.evaluate(model.eval(), lambda: None)
    assert found is not None
    assert found["loss"] < min(1.5, before - 0.5)  # six tokens by chance: 1.8


def test_packing_leaves_no_room_but_at_the_ends() -> None:
    rows = list(pack([(0, 5), (1, 9), (2, 3)], 4, 1))
    sizes = [sum(piece.last - piece.first for piece in row) for row in rows]
    assert sizes == [3, 4, 4, 4, 2]


def charge(task: LanguageTask, model: Model, batch: LanguageBatch) -> float:
    """A batch's loss with what the model's parts cost, as training reckons it."""
    costs = Costs(model, task.costs)
    with costs.watch():
        loss = task.loss(model, batch)
    return float(costs.charge(loss, batch.size))


@torch.no_grad()
def test_experts_are_kept_evenly_used(prepared: Prepared) -> None:
    torch.manual_seed(1)
    size = len(prepared.lexicon.tokenizer)
    model = preset("mixtral-8x7b", vocabulary=size, width=16, depth=1, heads=2, kv_heads=1, hidden=8).build().train()
    batch = epoch(learn(prepared))[0]
    with_cost, without = (charge(learn(prepared, balance=balance), model, batch) for balance in (0.5, 0.0))
    assert with_cost - without >= 0.5 * batch.size * 0.99  # an even use costs 1, an uneven one more


def test_a_folder_of_documents_can_be_cut_for_validation(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("0123456789" * 10 + "\n")
    corpus = CorpusSpec.parse({"kind": "files", "train": {"kind": "documents", "path": "text.txt"}, "holdout": 0.1})
    made, _ = prepare(corpus, LanguageTaskSpec(), TokenizerSpec(pieces="character"), 10, tmp_path, tmp_path / "data")
    (kept,) = made.samples("validation")
    assert kept["text"] == ("0123456789" * 10 + "\n")[90:]
    assert len(made.columns["text"][0]) == 90
