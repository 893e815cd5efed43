"""Whatever makes decoding fast changes no token: greedy translations of every path are those of the plain one.

The plain path is one sentence at a time with torch's own kernels. A model that has learned for some seconds is asked,
since the scores of random weights are nearly ties.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard.config import Document
from regard.decode.search import Search
from regard.decode.translator import Translator
from regard.kernels.library import SWITCH
from regard.runs.load import load_translator
from regard.runs.train import train

MODELS = {
    "transformer": {"kind": "transformer-tiny", "width": 64, "depth": 2, "heads": 4, "hidden": 128},
    "attentive": {"kind": "luong-feed", "width": 64},
}


@pytest.fixture(scope="module", params=MODELS)
def learned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param) / "run"
    tree = {
        "task": "translation",
        "corpus": {"kind": "en-fr", "train": 2000, "validation": 20, "test": 1000, "combinations": 0},
        "batches": {"tokens": 1024},
        "model": MODELS[request.param],
        "train": {"steps": 150, "evaluate": 0, "optimizer": {"rate": 0.004}},
        "device": "cpu",
        "out": str(folder),
    }
    train(Document(tree))
    return folder


def list_sources(run: Path, count: int) -> list[str]:
    from regard.runs.folder import Run

    return [sample["source"] for sample in Run.open(run).prepared().samples("test")[:count]]


def ask_plainly(run: Path, texts: list[str]) -> list[list[str]]:
    """One sentence at a time, in a process without our kernels."""
    words = "import json, sys, regard\n"
    words += "ask = regard.load(sys.argv[1]).translate\n"
    words += "print(json.dumps([ask(text, beam=1).tokens for text in json.load(sys.stdin)]))"
    given = {**os.environ, SWITCH: "off"}
    command, asked = [sys.executable, "-c", words, str(run)], json.dumps(texts)
    done = subprocess.run(command, input=asked, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def ask_together(translator: Translator, texts: list[str], rows: int) -> list[list[str]]:
    found = translator.translate_all(texts, Search(beam=1), rows=rows)
    return [best[0].tokens for best in found]


def check(run: Path, count: int) -> None:
    texts = list_sources(run, count)
    plain = ask_plainly(run, texts)
    assert len(plain) == count and len({tuple(tokens) for tokens in plain}) > count // 10
    translator = load_translator(str(run))
    for rows in (1, 7, 64):
        assert ask_together(translator, texts, rows) == plain, f"{rows} rows at a time"
    watched = regard.load(run).translate(texts, beam=1, attention=True)
    assert [one.tokens for one in watched] == plain, "with what each token looked at"


def test_every_path_writes_the_same_tokens(learned: Path) -> None:
    check(learned, 60)


@pytest.mark.long
def test_every_path_writes_the_same_tokens_a_thousand_times(learned: Path) -> None:
    check(learned, 1000)
