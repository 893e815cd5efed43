"""A look: what it holds, what it costs, and that what it shows is what the model computes."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.core.probe import Record
from regard.data.tokenizer import Tokenizer, TokenizerSpec
from regard.decode.filler import Filler
from regard.decode.reading import Reading, Strip
from regard.decode.translator import Translator
from regard.decode.writer import Writer
from regard.errors import InputError
from regard.lens.look import Look, measure_entropy
from regard.mixers import attention
from regard.models import preset
from regard.tasks.embedding import Embedder

TEXTS = ["the green cat sleeps here", "le chat vert dort ici", "a dog and the cats sing unhappily"]


def tokenizer(pieces: str = "bpe", vocabulary: int = 60) -> Tokenizer:
    return TokenizerSpec.parse({"pieces": pieces, "vocabulary": vocabulary}).train(TEXTS)


def network(name: str, words: int, **settings: Any) -> Model:
    torch.manual_seed(1)
    heads = {} if name in ("ntm", "lstm", "ssm", "bahdanau", "luong") else {"heads": 4}
    return preset(name, **{"width": 32, "depth": 3, **heads, "vocabulary": words, **settings}).build().eval()


def translator(name: str = "transformer-tiny", **settings: Any) -> Translator:
    words = tokenizer()
    return Translator(network(name, len(words), **settings), words, words)


def writer(name: str = "gpt2", pieces: str = "byte-bpe", **settings: Any) -> Writer:
    words = tokenizer(pieces, 300)
    return Writer(network(name, len(words), **settings), words)


@torch.no_grad()
@pytest.mark.parametrize("name", ["transformer-tiny", "t5-small", "convs2s-tiny"])
def test_weights_are_those_of_the_model(name: str) -> None:
    pipeline = translator(name)
    look = pipeline.look("the green cat", "le chat vert")
    assert look.source_tokens is not None
    assert look.source_tokens[-1] == "[EOS]"
    assert look.tokens[0] == "[BOS]"
    record = Record("*weights")
    model, source = pipeline.model, look.inputs.memory
    assert isinstance(model, Model)
    assert isinstance(source, Inputs)
    model(look.inputs.tokens, model.encode(source.tokens, probe=record), probe=record)
    found = look.weights()
    assert set(found) == set(record)
    for path, weights in found.items():
        torch.testing.assert_close(weights, record[path][0])
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))


SCORES = ["dot", "scaled", "multiplicative", "reduced", "additive", "location"]


@pytest.mark.parametrize("score", SCORES)
def test_all_six_scores_can_be_seen(score: str) -> None:
    look = translator("bahdanau", depth=1, score=score).look("the cat", "le chat")
    [(name, weights)] = look.weights().items()
    assert weights.shape == (1, len(look.tokens), len(look.source_tokens or []))
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))
    assert look.place(name).rows == "written"


def calls(look: Look, names: str) -> dict[str, int]:
    """How often attention ran openly, and through the fused kernel, to answer."""
    with (
        patch.object(attention, "openly", wraps=attention.openly) as openly,
        patch.object(F, "scaled_dot_product_attention", wraps=F.scaled_dot_product_attention) as fused,
    ):
        look.values(names)
    return {"openly": openly.call_count, "fused": fused.call_count}


def test_only_what_is_asked_for_leaves_the_fused_kernel() -> None:
    """And what is asked for later runs its own block alone."""
    look = writer(depth=6).look("the green cat")
    assert calls(look, "decoder.blocks.2.mix.weights") == {"openly": 1, "fused": 5}
    assert calls(look, "decoder.blocks.2.mix.weights") == {"openly": 0, "fused": 0}
    assert calls(look, "decoder.blocks.4.mix.weights") == {"openly": 1, "fused": 0}
    assert calls(look, "decoder.blocks.*.mix.query") == {"openly": 0, "fused": 6}
    assert calls(look, "decoder.blocks.*.stream") == {"openly": 0, "fused": 0}
    assert look.logits.shape[0] == len(look.tokens)


@torch.no_grad()
@pytest.mark.parametrize("name", ["gpt2", "llama-tiny", "deepseek-tiny", "hybrid", "ntm", "lstm", "ssm"])
def test_asking_later_gives_the_same_as_asking_at_once(name: str) -> None:
    pipeline = writer(name)
    once, later = pipeline.look("the green cat"), pipeline.look("the green cat")
    at_once = once.values()
    for path in reversed(once.names()):
        torch.testing.assert_close(later.values(path)[path], at_once[path], msg=path)


@torch.no_grad()
def test_asking_an_encoder_later_gives_the_same_too() -> None:
    pipeline = translator("t5-small")
    once, later = pipeline.look("the green cat", "le chat"), pipeline.look("the green cat", "le chat")
    at_once = once.values()
    assert later.logits.shape[0] == len(later.tokens)
    for path in once.names():
        torch.testing.assert_close(later.values(path)[path], at_once[path], msg=path)


def test_predictions_are_the_models_own() -> None:
    pipeline = writer()
    look = pipeline.look("the green cat")
    logs = look.logits.log_softmax(-1)
    found = look.predictions(3)
    assert [item.position for item in found] == list(range(len(look.tokens)))
    for item, token in zip(found, look.inputs.tokens[0, 1:].tolist(), strict=False):
        assert item.position is not None
        row = logs[item.position]
        assert item.log_probability == pytest.approx(float(row[token]))
        assert item.rank == 1 + int((row > row[token]).sum())
        assert item.entropy == pytest.approx(float(-(row.exp() * row).sum()), abs=1e-5)
        assert item.alternatives[0][1] == pytest.approx(float(row.max().exp()))
        assert len(item.alternatives) == 3
    assert found[-1].rank == 1  # what nobody wrote yet: the model's best


def test_a_translation_is_looked_at_as_it_was_found() -> None:
    """Without a target the model writes one; its log-probabilities are the search's."""
    pipeline = translator()
    best = pipeline.translate("the green cat", attention=True)
    look = pipeline.look("the green cat")
    assert look.label("written") == best.tokens
    assert [item.log_probability for item in look.predictions()] == pytest.approx(best.log_probabilities, abs=1e-4)
    assert best.weights is not None
    for name, weights in look.weights("*.cross.weights").items():
        torch.testing.assert_close(weights, torch.tensor(best.weights[name]), atol=1e-4, rtol=1e-4)


def test_words_sum_over_keys_and_average_over_queries() -> None:
    look = translator().look("the unhappily green cats", "le chat vert")
    assert look.source_tokens is not None
    assert len(look.source_tokens) > 5, "some word must be in pieces"
    words = look.by_word()
    assert words.source_words == ["the", "unhappily", "green", "cats", "[EOS]"]
    assert words.label("source") == words.source_words
    name = "decoder.blocks.1.cross.weights"
    whole, merged = look.weights(name)[name], words.weights(name)[name]
    torch.testing.assert_close(merged.sum(-1), torch.ones(merged.shape[:2]))
    last = [n for n, piece in enumerate(look.source_tokens) if piece.startswith("▁")][1:3]
    rows = [n for n, piece in enumerate(look.label("written")) if piece.startswith("▁")]
    expected = whole[:, rows[0] : rows[1], last[0] : last[1]].sum(-1).mean(-1)
    torch.testing.assert_close(merged[:, 0, 1], expected)


def test_bytes_are_spelled_as_letters() -> None:
    look = writer().look("the cät")
    assert "".join(look.tokens[1:]).replace("▁", " ").replace("<C3><A4>", "ä") == "the cät"
    assert look.words[1] == "the"


def test_pieces_without_a_space_before_them_go_on() -> None:
    assert writer().look("unhappily").words == ["[BOS]", "unhappily"]
    assert [word for word in writer().look("the cat\nsings").words if word.strip()] == ["[BOS]", "the", "cat", "sings"]


def test_the_entropy_of_labels_that_stand_by_themselves_is_the_sum_of_theirs() -> None:
    logits = torch.tensor([0.3, -1.2, 2.0])
    shares = logits.sigmoid()
    expected = -(shares * shares.log() + (1 - shares) * (1 - shares).log()).sum()
    torch.testing.assert_close(measure_entropy(logits, "sigmoid"), expected)


def test_a_pattern_that_matches_nothing_names_the_nearest() -> None:
    pipeline = writer()
    with pytest.raises(
        InputError, match=r"nothing here is called decoder\.blocks\.9\.mix\.weights; near it: decoder\.bl"
    ):
        pipeline.look("the cat", names="decoder.blocks.9.mix.weights")
    with pytest.raises(InputError, match="nothing here is called nonsense"):
        pipeline.look("the cat").weights("nonsense")
    with pytest.raises(InputError, match="none of these are attention weights"):
        pipeline.look("the cat").weights("*.stream")
    with pytest.raises(InputError, match="nothing in this model attends"):
        writer("lstm").look("the cat").weights()


def test_bad_texts_are_refused() -> None:
    with pytest.raises(InputError, match="it has no tokens"):
        translator().look("   ")
    with pytest.raises(InputError, match="the text is empty"):
        writer().look("")
    with pytest.raises(InputError, match="this Writer reads one text, and a target is given too"):
        writer().look("the cat", "le chat")
    with pytest.raises(InputError, match="several models answer together"):
        one = translator()
        assert isinstance(one.model, Model)
        Translator(regard.Ensemble([one.model, one.model]), one.source, one.target).look("the cat")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Look, Path]]:
    yield translator().look("the green cat", "le chat vert"), tmp_path_factory.mktemp("kept")


def test_json_has_everything(kept: tuple[Look, Path]) -> None:
    look, folder = kept
    found = json.loads(look.save(folder / "look.json").read_text())
    assert found["axes"]["source"]["tokens"] == look.source_tokens
    by_name = {each["name"]: each for each in found["maps"]}
    for name, weights in look.weights().items():
        assert torch.equal(torch.tensor(by_name[name]["weights"]), weights)
        assert len(by_name[name]["summary"]) == weights.shape[0]
    assert [each["token"] for each in found["predictions"]] == look.label("written")


def test_npz_is_exact_and_needs_no_pickle(kept: tuple[Look, Path]) -> None:
    look, folder = kept
    with np.load(look.save(folder / "look.npz"), allow_pickle=False) as found:
        for name, weights in look.weights().items():
            assert np.array_equal(found[name], weights.numpy())
        assert found["axis.source"].tolist() == look.source_tokens


def test_npz_holds_whatever_the_look_is_about(kept: tuple[Look, Path]) -> None:
    look = writer("lstm").look("the cat", names="*.hidden")
    with np.load(look.save(kept[1] / "hidden.npz"), allow_pickle=False) as found:
        assert set(found) - {"axis.target"} == set(look.names())
        for name, value in look.values().items():
            assert np.array_equal(found[name], value.numpy())


def test_csv_has_a_line_for_each_weight(kept: tuple[Look, Path]) -> None:
    look, folder = kept
    text = look.save(folder / "look.csv").read_text()
    lines = list(csv.DictReader(text.splitlines()))
    assert len(lines) == sum(weights.numel() for weights in look.weights().values())
    some = next(line for line in lines if line["name"] == "decoder.blocks.1.cross.weights" and line["head"] == "2")
    assert float(some["weight"]) == float(look.weights(some["name"])[some["name"]][2, 0, 0])
    assert some["row_token"] == look.label("written")[0]


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("html", b"<!doctype html>")])
def test_pictures_and_pages_are_written(kept: tuple[Look, Path], ending: str, magic: bytes) -> None:
    look, folder = kept
    assert look.save(folder / f"look.{ending}").read_bytes()[:20].lower().startswith(magic.lower())


def test_what_cannot_be_written_leaves_nothing(kept: tuple[Look, Path]) -> None:
    look, folder = kept
    before = sorted(folder.iterdir())
    with pytest.raises(InputError, match=r"can't be written as \.gif"):
        look.save(folder / "look.gif")
    with pytest.raises(InputError, match="nothing in this model attends"):
        writer("lstm").look("the cat").save(folder / "other.csv")
    assert sorted(folder.iterdir()) == before


def test_a_notebook_shows_the_page(kept: tuple[Look, Path]) -> None:
    look, _ = kept
    assert look._repr_html_().startswith("<iframe")


def test_a_model_that_is_being_trained_is_looked_at_without_dropout() -> None:
    pipeline = writer(dropout=0.5)
    expected = pipeline.look("the cat").logits
    pipeline.model.train()
    torch.testing.assert_close(pipeline.look("the cat").logits, expected)
    assert pipeline.model.training


def test_a_turing_machine_shows_where_it_reads_and_writes() -> None:
    look = writer("ntm", depth=1).look("the cat")
    assert [(each.what, each.columns) for each in look.maps()] == [
        ("read_weights", "slots"),
        ("write_weights", "slots"),
    ]
    figure = look.figure()
    assert figure.data["axes"]["slots"] == {"size": look.weights()["decoder.blocks.0.mix.read_weights"].shape[2]}


def test_tokens_alone_can_be_looked_at() -> None:
    """A model without a tokenizer: whoever has token numbers lays them out."""
    model = network("bert-tiny", 50)
    strip = Strip(("a", "b", "c"), (False,) * 3)
    look = Look(model, Reading(Inputs(torch.tensor([[5, 6, 7]])), strip))
    assert look.weights("*.0.mix.weights")["encoder.blocks.0.mix.weights"].shape == (4, 3, 3)


def small_bert(words: Tokenizer, **settings: Any) -> Model:
    return network("bert-tiny", len(words), **settings)


def test_a_filler_is_asked_at_its_masks_or_everywhere() -> None:
    words = TokenizerSpec.parse({"pieces": "wordpiece", "vocabulary": 80}).train(TEXTS, ["[MASK]"])
    filler = Filler(small_bert(words, head="masking"), words)
    look = filler.look("the [MASK] sleeps")
    [guess] = look.predictions(4)
    assert look.tokens[guess.position or 0] == "[MASK]"
    told = filler.fill("the [MASK] sleeps", best=4).guesses[0]
    assert [share for _, share in guess.alternatives] == pytest.approx([each.probability for each in told], abs=1e-6)
    whole = filler.look("the green cat")
    assert [item.token for item in whole.predictions()] == [piece for piece in whole.tokens if piece[0] != "["]
    assert whole.weights("encoder.blocks.0.*")["encoder.blocks.0.mix.weights"].shape[0] == 4


def test_an_embedder_is_looked_at_and_predicts_nothing() -> None:
    words = tokenizer("wordpiece", 80)
    embedder = Embedder(small_bert(words), words)
    look = embedder.look("the green cat")
    assert look.predictions() == []
    assert len(look.weights("*.mix.weights")) == 3
    assert look.values("encoder.features")["encoder.features"].shape == (len(look.tokens), 32)
    with pytest.raises(InputError, match="it has no tokens"):
        embedder.look("")


@pytest.mark.parametrize("name", ["gpt2", "transformer-tiny", "luong"])
def test_generation_goes_on_under_an_edit(name: str) -> None:
    """As if the head weren't there: the weights that lead out of it are zero."""
    path = {
        "gpt2": "decoder.blocks.1.mix",
        "transformer-tiny": "decoder.blocks.1.cross",
        "luong": "decoder.blocks.0.mix",
    }
    pipeline = writer(name) if name == "gpt2" else translator(name, **({"depth": 1} if name == "luong" else {}))
    head, leads_out = (None, slice(32, 64)) if name == "luong" else (2, slice(16, 24))
    model = pipeline.model
    assert isinstance(model, Model)

    def write() -> Any:
        if isinstance(pipeline, Writer):
            return pipeline.write("the cat", max_tokens=8, sample=False)[0].log_probabilities
        return pipeline.translate("the green cat", beam=3).log_probabilities

    before = write()
    with model.watch(regard.Edit.zero(f"{path[name]}.context", head=head)):
        under = write()
    assert under != pytest.approx(before)
    with torch.no_grad():
        model.get_parameter(f"{path[name]}.inner.output.weight")[:, leads_out] = 0
    assert write() == pytest.approx(under, abs=1e-4)
