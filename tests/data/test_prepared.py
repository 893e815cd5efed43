"""A corpus made ready: texts that the model has no positions for are left out before anything is trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import Document
from regard.data.batches import BatchSpec
from regard.data.corpus import CorpusSpec
from regard.data.log import Log
from regard.data.preparation import prepare
from regard.data.prepared import Prepared
from regard.data.tokenizer import TokenizerSpec
from regard.errors import CheckpointError, DataError, SpecError
from regard.models import preset
from regard.runs.folder import Run
from regard.runs.train import train
from regard.tasks.language import LanguageTaskSpec
from regard.tasks.task import TaskSpec
from regard.tasks.translation import TranslationTaskSpec

PLACES = 12
SMALL = {"width": 16, "depth": 1, "heads": 2}
ENCODER = {"kind": "bert-tiny", **SMALL, "context": PLACES}
DECODER = {"kind": "gpt2", **SMALL, "context": PLACES}
LEARNED = {"kind": "transformer-tiny", **SMALL, "position": {"kind": "learned", "context": PLACES}}
PAIRS = {"kind": "tsv"}


def words(count: int) -> str:
    return " ".join("abcdefgh"[n % 8] for n in range(count))


def tagged(count: int) -> str:
    return "".join(f"{'abcdefgh'[n % 8]} {'XY'[n % 2]}\n" for n in range(count)) + "\n"


# the task, its model, a reader, and how a line is made with a text of so many tokens; how many just fit
CASES: dict[str, tuple[str, Any, dict[str, Any], Any, int]] = {
    "classification": ("classification", ENCODER, {"kind": "labels"}, lambda n: f"{words(n)}\t{'xy'[n % 2]}\n", 10),
    "classification, decoder": (
        *("classification", DECODER, {"kind": "labels"}),
        *(lambda n: f"{words(n)}\t{'xy'[n % 2]}\n", 10),
    ),
    "pairs of texts": (
        *("classification", ENCODER, {"kind": "labels", "second": 1, "label": 2}),
        *(lambda n: f"{words(n)}\ta b\t{'xy'[n % 2]}\n", 7),
    ),
    "tagging": ("tagging", ENCODER, {"kind": "columns"}, tagged, 10),
    "embedding": ("embedding", ENCODER, PAIRS, lambda n: f"a {'bcdefgh'[n % 7]}\t{words(n)}\n", 10),
    "source": ("translation", LEARNED, PAIRS, lambda n: f"{words(n)}\ta b\n", 11),
    "target": ("translation", LEARNED, PAIRS, lambda n: f"a b\t{words(n)}\n", 11),
    "a decoder alone": ("translation", DECODER, PAIRS, lambda n: f"a b\t{words(n)}\n", 9),
    "algorithm": ("algorithm", LEARNED, PAIRS, lambda n: f"{words(n)}\ta b\n", 11),
}


def tree(folder: Path, name: str, sizes: dict[str, list[int]]) -> dict[str, Any]:
    task, model, reader, line, _ = CASES[name]
    for split, lengths in sizes.items():
        (folder / f"{split}.tsv").write_text("".join(line(size) for size in lengths))
    return {
        "task": task,
        "data": str(folder),
        "corpus": {"kind": "files", **{split: {**reader, "path": f"{split}.tsv"} for split in sizes}},
        "tokenizer": {"pieces": "given"},
        "model": model,
        "train": {"steps": 2, "evaluate": 1, "schedule": "constant"},
        "device": "cpu",
        "out": str(folder / "run"),
    }


@pytest.mark.parametrize("name", CASES)
def test_what_outgrows_the_positions_is_left_out_and_the_run_goes_on(tmp_path: Path, name: str) -> None:
    torch.set_num_threads(1)
    most = CASES[name][-1]
    lengths = {split: [2, most, most + 1, 3] for split in ("train", "validation", "test")}
    told: list[str] = []
    fitted = train(Document(tree(tmp_path, name, lengths)), told.append)
    prepared = Run.open(tmp_path / "run").prepared()
    assert prepared.facts["samples"] == {"train": 3, "validation": 3, "test": 3}
    rejected = (tmp_path / "run" / "data" / "rejected.txt").read_text().splitlines()
    start = 3 if name != "tagging" else 2 + 1 + most + 1 + 1
    for line, split in zip(rejected, lengths, strict=True):
        assert line.startswith(f"{tmp_path}/{split}.tsv:{start}: too many tokens for the model: {PLACES + 1}, and its ")
        assert f"has positions for {PLACES} (skipped)" in line
    assert any("9 kept, 0 of them repaired, 3 skipped (too many tokens for the model 3)" in line for line in told)
    assert fitted is not None


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_split_of_which_nothing_fits_is_an_error_with_both_lengths(tmp_path: Path, split: str) -> None:
    lengths = {name: [2, 3] for name in ("train", "validation", "test")} | {split: [31, 20]}
    with pytest.raises(
        DataError, match=f"{split}: none of its 2 samples fits, .* for the model: 22, and its encoder .* for {PLACES}"
    ):
        Run.begin(Document(tree(tmp_path, "classification", lengths)))
    assert not (tmp_path / "run").exists()


def test_longer_texts_than_a_batch_takes_are_left_out_of_training_alone(tmp_path: Path) -> None:
    document = tree(tmp_path, "classification", {"train": [2, 3, 9], "validation": [2, 3, 9]})
    run = Run.begin(Document(document | {"batches": {"longest": 8}}))
    assert run.prepared().facts["samples"] == {"train": 2, "validation": 3}
    with pytest.raises(DataError, match=r"train: none of its 3 samples fits, .* 5, and 4 are the most"):
        Run.begin(Document(document | {"batches": {"longest": 4}, "out": str(tmp_path / "other")}))


def test_a_corpus_made_ready_for_one_model_is_made_anew_for_one_with_fewer_positions(tmp_path: Path) -> None:
    document = tree(tmp_path, "source", {"train": [2, 3, 15], "validation": [2, 15]})
    endless = {"kind": "transformer-tiny", **SMALL}
    first = Run.begin(Document(document | {"model": endless})).prepared()
    assert first.facts["samples"] == {"train": 3, "validation": 2}
    same = Run.begin(Document(document | {"model": endless, "out": str(tmp_path / "same")}), ready=first)
    fewer = Run.begin(Document(document | {"out": str(tmp_path / "fewer")}), ready=first)
    assert same.prepared().facts == first.facts
    assert fewer.prepared().facts["samples"] == {"train": 2, "validation": 1}


def test_pieces_that_dropout_makes_smaller_never_outgrow_the_positions(tmp_path: Path) -> None:
    texts = ["green cats sleep\tles chats verts dorment\n"] * 40
    (tmp_path / "a.tsv").write_text("".join(texts))
    corpus = CorpusSpec.parse({"kind": "files", "train": {"kind": "tsv", "path": "a.tsv"}})
    spec, task = TokenizerSpec(vocabulary=60, dropout=0.9), TranslationTaskSpec()
    folders = (tmp_path, tmp_path / "data")
    position = {"kind": "learned", "context": 8}
    model = preset("transformer-tiny", vocabulary=60, **SMALL, position=position)
    prepared, _ = prepare(corpus, task, spec, 50, *folders, None, lambda _: model)
    place = next(task.build(prepared, BatchSpec(), 1).batches(0, 0))
    assert place.batch.source.tokens.shape[1] <= 8
    assert place.batch.target.tokens.shape[1] - 1 <= 8  # the last token is predicted, not read


def test_a_text_that_comes_back_altered_is_told_when_its_tokens_are_learned(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat\n  indented\nthe dog\nsnake▁case\n")
    train = {"kind": "documents", "path": "a.txt", "unit": "line"}
    for pieces, count in (("bpe", 2), ("byte-bpe", 0)):
        folder = tmp_path / pieces
        corpus = CorpusSpec.parse({"kind": "files", "train": train})
        _, log = prepare(corpus, LanguageTaskSpec(), TokenizerSpec.parse({"pieces": pieces}), 50, tmp_path, folder)
        assert log.kept == 4
        assert log.reasons == ({"altered by bpe": 2} if count else {})
        if count:
            places = [line.partition(": ")[0] for line in (folder / "rejected.txt").read_text().splitlines()]
            assert places == [f"{tmp_path}/a.txt:2", f"{tmp_path}/a.txt:4"]


def test_a_recurrence_that_reads_on_and_on_needs_positions_without_end() -> None:
    spec = preset("lstm", vocabulary=20, width=8, depth=1)
    assert spec.decoder is not None
    tokens = spec.decoder.embedding.replace(position={"kind": "learned", "context": 50})
    limited = spec.replace(decoder=spec.decoder.replace(embedding=tokens))
    lexicon: Any = None
    with pytest.raises(SpecError, match="positions end at 50"):
        LanguageTaskSpec(context=10, carry=True).fit_model(limited, lexicon)
    assert LanguageTaskSpec(context=10).fit_model(limited, lexicon) == limited
    assert LanguageTaskSpec(context=10, carry=True).fit_model(spec, lexicon) == spec


def test_scattered_positions_end_with_their_places_in_training_and_with_their_table_in_use() -> None:
    def limits(**settings: Any) -> list[dict[str, int]]:
        model = preset("decoder-tiny", vocabulary=20, **SMALL, **settings)
        return [model.limits(training=True), model.limits()]

    assert limits(position="rotary") == [{}, {}]
    assert limits(position="rotary", scatter=40) == [{"decoder": 40}, {}]
    assert limits(position="learned", context=40) == [{"decoder": 40}, {"decoder": 40}]
    assert limits(position="learned", context=42, scatter=30) == [{"decoder": 11}, {"decoder": 11}]


def test_a_sample_takes_what_its_row_has() -> None:
    """The count that is made ahead is the count of the batch."""
    for kind, row in (
        ("translation", {"source": [4, 5], "target": [6, 7, 8]}),
        ("embedding", {"source": [4, 5], "target": [6, 7, 8]}),
        ("tagging", {"text": [4, 5, 6], "first": [0, 1, 2], "tags": [0, 1, 0]}),
        ("classification", {"text": [4, 5, 6], "second": [], "label": [0]}),
    ):
        taken = TaskSpec.parse(kind).places(row)
        assert taken == ({"encoder": 3, "decoder": 4} if kind == "translation" else dict.fromkeys(taken, 5))
    joined = TranslationTaskSpec(joined=True).places({"source": [4, 5], "target": [6, 7, 8]})
    assert joined == {"decoder": 6}  # source, separator, target


def test_what_is_remarked_is_no_reason_to_stop() -> None:
    log = Log("stop")
    log.remark("a:1", "altered by bpe: …")
    assert json.loads(json.dumps(log.reasons)) == {"altered by bpe": 1}


@pytest.mark.parametrize("limits", ["x", [], [{}, 1], [{"encoder": "1"}, {}], {"a": {}, "b": {}}])
def test_damaged_limits_are_found_out(tmp_path: Path, limits: Any) -> None:
    run = Run.begin(Document(tree(tmp_path, "source", {"train": [2, 3]})))
    path = run.folder / "data" / "data.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps(facts | {"limits": limits}))
    with pytest.raises(CheckpointError, match=r"data.json: damaged"):
        Prepared.load(run.folder / "data")
    del facts["limits"]
    path.write_text(json.dumps(facts))
    assert Prepared.load(run.folder / "data").limits == {}  # made ready by an earlier version
