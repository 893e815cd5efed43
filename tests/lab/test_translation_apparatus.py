"""What experiments ask of translators, against searching and cutting by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.core.model import Model
from regard.core.probe import Edit
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.recipe import make_translation
from regard.lab.apparatus.translation import answer_pairs, link_split, list_head_scores, translate_split
from regard.lab.heads import describe_heads, make_cut, remove_heads
from regard.runs.folder import Run
from regard.runs.load import load_translator
from regard.tasks.measures import ratio
from regard.tasks.translation import sum_losses

TINY = {"kind": "transformer-tiny", "width": 32, "hidden": 32, "depth": 1, "heads": 2, "dropout": 0.0}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    torch.set_num_threads(1)
    tree = make_translation(TINY, 12_000, 0.01, test=60)
    tree["tokenizer"]["vocabulary"] = 300
    return Bench(tmp_path_factory.mktemp("bench")).train({"tiny": tree})["tiny"]


def test_reading_finds_right_what_a_greedy_search_writes(run: Run) -> None:
    done = translate_split(run)
    translator = load_translator(str(run.folder))
    answers = translator.translate([source for source, _ in done.pairs], beam=1)
    assert [answer.text for answer in answers] == list(done.texts)
    # a text can be cut into other pieces than those that were written, and an answer that was cut has no end
    cutter = translator.target.engine
    own = [
        (source, answer.text)
        for (source, _), answer in zip(done.pairs, answers, strict=True)
        if answer.cut is None
        and cutter.encode(answer.text, add_special_tokens=False).ids
        == [cutter.token_to_id(token) for token in answer.tokens[:-1]]
    ]
    assert len(own) >= 5
    assert answer_pairs(translator, own).exact == 1.0
    wrong = [pair for pair, text in zip(done.pairs, done.texts, strict=True) if text != pair[1]]
    assert answer_pairs(translator, wrong).exact == 0.0


def test_the_loss_is_that_of_an_evaluation(run: Run) -> None:
    done = translate_split(run)
    translator = load_translator(str(run.folder))
    assert isinstance(translator.model, Model)
    expected = ratio(*sum_losses(translator.model, translator, done.pairs, lambda: None)).value
    found = answer_pairs(translator, done.pairs)
    assert found.loss == pytest.approx(expected, rel=1e-5)
    assert found.losses.shape == found.right.shape == (60,)


def test_a_cut_of_all_heads_is_an_attention_that_adds_its_bias_alone(run: Run) -> None:
    pairs = translate_split(run).pairs[:10]
    translator = load_translator(str(run.folder))
    name = "decoder.blocks.0.cross.context"
    heads = [(name, 0), (name, 1)]
    by_cut = answer_pairs(translator, pairs, make_cut(heads)).losses
    torch.testing.assert_close(by_cut, answer_pairs(translator, pairs, Edit.zero(name)).losses)
    assert not torch.allclose(by_cut, answer_pairs(translator, pairs, make_cut(heads[:1])).losses)
    torch.testing.assert_close(
        answer_pairs(translator, pairs, make_cut([])).losses, answer_pairs(translator, pairs).losses
    )


def test_every_head_over_the_source_has_links_that_are_measured(run: Run) -> None:
    found = list_head_scores(link_split(str(run.folder)))
    assert list(found) == [(0, 0), (0, 1)]
    assert all(0 < score.error_rate <= 1 and score.sentences == 60 for score in found.values())


def test_heads_are_described_and_removed(run: Run, tmp_path: Path) -> None:
    pairs = translate_split(run).pairs[:8]
    translator = load_translator(str(run.folder))
    heads = describe_heads([translator.look(*pair) for pair in pairs[:3]])
    assert [row["head"] for row in heads.values()] == [
        f"{where} 0.{head}" for where in ("encoder", "decoder", "source") for head in (0, 1)
    ]
    for (name, _), row in heads.items():
        shares = [row[key] for key in ("previous", "same", "next")]
        assert shares == [None] * 3 if "cross" in name else 0 < sum(shares) <= 1.0001
        assert row["next"] == 0 or not name.startswith("decoder.blocks.0.mix")
    order = list(heads)
    rows = remove_heads(Bench(tmp_path), translator, pairs, {"once": [order], "twice": [order, order[::-1]]})
    assert [(row["order"], row["removed"]) for row in rows] == [(n, k) for n in ("once", "twice") for k in range(7)]
    assert rows[0]["loss"] == rows[7]["loss"]  # the whole model
    assert rows[6]["loss"] == pytest.approx(rows[13]["loss"])  # whichever went first, all are gone
