"""Whatever makes decoding fast changes no token: what every path writes greedily is what the plain one writes.

The plain path is one sentence, or one prompt, at a time with torch's own kernels. A model that has learned for some
seconds is asked, since the scores of random weights are nearly ties.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.config import Document
from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.core.probe import Record
from regard.decode.search import Search
from regard.decode.translator import Translator
from regard.kernels.library import SWITCH
from regard.runs.folder import Run
from regard.runs.load import load_bundle, load_translator
from regard.runs.train import train

TRANSLATORS = {
    "transformer": {"kind": "transformer-tiny", "width": 64, "depth": 2, "heads": 4, "hidden": 128},
    "attentive": {"kind": "luong-feed", "width": 64},
}
WRITERS = {
    "gpt": {"kind": "gpt2", "width": 64, "depth": 2, "heads": 4, "context": 64},
    "mamba": {"kind": "mamba-130m", "width": 64, "depth": 2},
    "lstm": {"kind": "lstm", "width": 64, "depth": 1},
}
STEPS = {"gpt": 120, "mamba": 120, "lstm": 400}  # until what each writes differs from prompt to prompt
MORE = 12  # tokens that a writer adds to a prompt


def teach(folder: Path, task: str | dict[str, Any], model: dict[str, Any], steps: int, rate: float) -> Path:
    tree = {
        "task": task,
        "corpus": {"kind": "en-fr", "train": 2000, "validation": 20, "test": 1000, "combinations": 0},
        "batches": {"tokens": 1024},
        "model": model,
        "train": {"steps": steps, "evaluate": 0, "optimizer": {"rate": rate}},
        "device": "cpu",
        "out": str(folder),
    }
    train(Document(tree))
    return folder


@pytest.fixture(scope="module", params=TRANSLATORS)
def learned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return teach(tmp_path_factory.mktemp(request.param) / "run", "translation", TRANSLATORS[request.param], 150, 0.004)


@pytest.fixture(scope="module", params=WRITERS)
def writer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    task = {"kind": "language", "context": 48}
    return teach(
        tmp_path_factory.mktemp(request.param) / "run", task, WRITERS[request.param], STEPS[request.param], 0.01
    )


def list_sources(run: Path, count: int) -> list[str]:
    return [sample["source"] for sample in Run.open(run).prepared().samples("test")[:count]]


def ask_plainly(run: Path, texts: list[str]) -> list[list[str]]:
    """One sentence at a time, in a process without our kernels."""
    words = "import json, sys, regard\n"
    words += "ask = regard.load(sys.argv[1]).translate\n"
    words += "print(json.dumps([ask(text, beam=1).tokens for text in json.load(sys.stdin)]))"
    return list(run_without_kernels(words, run, texts))


def run_without_kernels(words: str, run: Path, given: object) -> Any:
    """What a program makes of JSON in a process that has torch's kernels alone."""
    command = [sys.executable, "-c", words, str(run)]
    told = {**os.environ, SWITCH: "off"}
    done = subprocess.run(command, input=json.dumps(given), env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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


def list_prompts(run: Path, count: int) -> list[list[int]]:
    """Beginnings of sentences that it hasn't learned, of one to six tokens."""
    prepared = Run.open(run).prepared()
    texts = [sample["text"] for sample in prepared.samples("test")[:count]]
    rows = prepared.lexicon.tokenizer.encode(texts)
    return [row[: 1 + number % 6] for number, row in enumerate(rows)]


def write_plainly(run: Path, prompts: list[list[int]]) -> list[list[int]]:
    """One prompt at a time, in a process without our kernels."""
    words = "import json, sys, torch\n"
    words += "from regard.runs.load import load_bundle\n"
    words += "model = load_bundle(sys.argv[1], 'cpu').model\n"
    words += f"write = lambda row: model.generate(torch.tensor([row]), max_tokens={MORE})[0]\n"
    words += "print(json.dumps([write(row) for row in json.load(sys.stdin)]))"
    return list(run_without_kernels(words, run, prompts))


def write_together(model: Model, prompts: list[list[int]], rows: int) -> list[list[int]]:
    groups = (prompts[first : first + rows] for first in range(0, len(prompts), rows))
    return [row for group in groups for row in model.generate(Inputs.pad(group, 0), max_tokens=MORE)]


@torch.no_grad()
def write_watched(model: Model, prompt: list[int]) -> list[int]:
    """Token by token, with everything that can be seen looked at."""
    state, tokens, written = model.start(1, room=len(prompt) + MORE), torch.tensor([prompt]), list[int]()
    for _ in range(MORE):
        record = Record("*")
        logits = model.step(tokens, state, probe=record)
        assert record, "nothing was seen"
        tokens = logits[:, -1:].argmax(-1) if logits.dim() == 3 else logits.argmax(-1, keepdim=True)
        written.append(int(tokens))
    return written


def check_writer(run: Path, count: int) -> None:
    prompts = list_prompts(run, count)
    plain = write_plainly(run, prompts)
    assert len(plain) == count and len({tuple(tokens) for tokens in plain}) > count // 20
    model = load_bundle(str(run), "cpu").model.eval()
    for rows in (1, 7, 64):
        assert write_together(model, prompts, rows) == plain, f"{rows} rows at a time"
    assert [write_watched(model, prompt) for prompt in prompts] == plain, "watched"


def test_every_path_of_a_language_model_writes_the_same_tokens(writer: Path) -> None:
    check_writer(writer, 40)


@pytest.mark.long
def test_every_path_of_a_language_model_writes_the_same_tokens_a_thousand_times(writer: Path) -> None:
    check_writer(writer, 1000)
