"""Preferences that a reward makes of a model's own answers: what is drawn, chosen, cut, and who learns from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.core.plugins import LOADED
from regard.data.dialogue import USER, say
from regard.data.log import Unusable
from regard.data.tokenizer import Tokenizer
from regard.data.transcription import transcribe
from regard.decode.writer import Writer
from regard.runs.folder import Run
from regard.runs.load import load_as
from regard.runs.prefer import PairDrawing, cut_prefix, cut_prefixes, draw_preferences
from regard.tasks.preference import PreferenceTaskSpec
from regard.tasks.reward import RewardTaskSpec
from tests.cli.test_cli import regard as run_here

LINES = [
    f"the {colour} {noun} {verb} in the garden today"
    for colour in ("red", "green", "blue", "old")
    for noun in ("cat", "dog", "bird", "man")
    for verb in ("sleeps", "sings", "runs")
]
GRADE = """
def grade(prompt, answer, sample):
    return float(len(prompt + answer))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefer")
    (folder / "lines.txt").write_text("\n".join(LINES) + "\n")
    tree: dict[str, Any] = {
        "task": {"kind": "language", "context": 16},
        "corpus": {"kind": "files", "train": {"kind": "documents", "path": str(folder / "lines.txt"), "unit": "line"}},
        "tokenizer": {"pieces": "bpe", "vocabulary": 60},
        "batches": {"tokens": 256},
        "model": {"kind": "decoder-tiny", "width": 16, "depth": 1, "heads": 2},
        "train": {"steps": 6, "evaluate": 0, "save": 6},
        "device": "cpu",
        "out": str(folder / "writer"),
    }
    (folder / "writer.yaml").write_text(json.dumps(tree))
    regard.fit(folder / "writer.yaml")
    return folder


@pytest.fixture(scope="module")
def tokenizer(place: Path) -> Tokenizer:
    return load_as(str(place / "writer"), Writer, "").tokenizer


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_beginnings_are_whole_words_that_read_as_the_same_tokens(tokenizer: Tokenizer) -> None:
    for text in LINES:
        for wanted in range(2, 9):
            begun = cut_prefix(text, tokenizer, 2, wanted)
            if begun is None:
                continue
            assert text.startswith(begun + " ")
            size = len(tokenizer.encode([begun])[0])
            assert 2 <= size <= wanted and tokenizer.encode([text])[0][:size] == tokenizer.encode([begun])[0]
    assert cut_prefix("the", tokenizer, 2, 8) is None  # nothing is left to write
    samples = [{"prompt": [say(USER, text)]} for text in [*LINES, "the"]]
    found, short = cut_prefixes(samples, tokenizer, PairDrawing(prefix=(2, 8)))
    assert len(found) + short == len(samples) and short >= 1
    assert len({sample["prompt"][0]["content"] for sample in found}) > 5
    assert cut_prefixes(samples, tokenizer, PairDrawing(prefix=(2, 8)))[0] == found


def test_the_answer_that_earns_more_is_chosen(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LOADED, "plugins", {})  # what a command loads here is forgotten
    (tmp_path / "grade.py").write_text(GRADE)
    told = "{kind: function, name: grade}"
    words = ["--data", str(place / "lines.txt"), "--prefix", "2-4", "--pairs", "2", "--most", "5"]
    out = tmp_path / "pairs.jsonl"
    command = ["--uses", str(tmp_path / "grade.py"), "prefer", str(place / "writer"), "--reward", told, *words]
    done = run_here(*command, "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    counts, pairs = json.loads(done.stdout), read(out)
    assert counts["pairs"] == len(pairs) and counts["pairs"] + counts["ties"] == 2 * counts["prompts"]
    assert counts["prompts"] + counts["short"] == len(LINES)
    for pair in pairs:
        prompt = pair["prompt"][0]["content"]
        lengths = [float(len(prompt + pair[name])) for name in ("chosen", "rejected")]
        assert pair["rewards"] == lengths and lengths[0] > lengths[1]
    assert any(pair.get("unfinished") for pair in pairs)
    again = tmp_path / "again.jsonl"
    assert run_here(*command, "--out", str(again)).returncode == 0
    assert again.read_bytes() == out.read_bytes()  # chance follows from the seed


def test_what_is_written_is_learned_by_all_who_learn_to_please(place: Path, tmp_path: Path) -> None:
    found = draw_preferences(
        str(place / "writer"), "manners", [str(place / "lines.txt")], PairDrawing(pairs=3, most=6, prefix=(2, 4))
    )
    assert found.pairs
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(pair) + "\n" for pair in found.pairs * 4))
    for task in ("preference", "reward", "policy"):
        tree: dict[str, Any] = {
            "task": {"kind": task, "format": "plain"} | ({"reward": "manners"} if task == "policy" else {}),
            "corpus": {"kind": "files", "train": {"kind": "jsonl", "path": str(file)}, "split": {"validation": 0.2}},
            "start": str(place / "writer"),
            "batches": {"rows": 8},
            "train": {"steps": 2, "evaluate": 0, "save": 2},
            "device": "cpu",
            "out": str(tmp_path / task),
        }
        (tmp_path / f"{task}.yaml").write_text(json.dumps(tree))
        regard.fit(tmp_path / f"{task}.yaml")
        assert Run.open(tmp_path / task).prepared().has("validation")


def test_only_who_writes_leaves_a_cut_answer_without_an_end(tokenizer: Tokenizer) -> None:
    sample = {"prompt": [say(USER, "the red")], "chosen": "cat", "rejected": "dog", "unfinished": ["chosen"]}
    writes = PreferenceTaskSpec(format="plain").encode_pair(sample, tokenizer)
    assert writes.chosen[-1] != tokenizer.end and writes.rejected[-1] == tokenizer.end
    judges = RewardTaskSpec(format="plain").encode_pair(sample, tokenizer)
    assert judges.chosen == [*writes.chosen, tokenizer.end] and judges.rejected == writes.rejected


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--prefix", "9-2"], "--prefix 9-2"),
        (["--prefix", "few"], "--prefix few"),
        (["--out", "pairs.csv"], "JSON lines"),
        (["--reward", "{kind"], "can't be read"),
        (["--prefix", "500-600"], "no prompts"),
    ],
)
def test_wrong_use_is_told_with_a_way_out(place: Path, tmp_path: Path, words: list[str], told: str) -> None:
    given = {"--reward": "manners", "--data": str(place / "lines.txt"), "--out": str(tmp_path / "pairs.jsonl")}
    given |= dict([words])
    done = run_here("prefer", str(place / "writer"), *(word for pair in given.items() for word in pair))
    assert done.returncode != 0 and told in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) > 1  # what to type stands below
    assert not (tmp_path / "pairs.jsonl").exists()


def test_answers_that_are_neither_are_refused_by_name() -> None:
    with pytest.raises(Unusable, match="neither chosen nor rejected: 'both'"):
        transcribe({"prompt": "a", "chosen": "b", "rejected": "c", "unfinished": ["both"]}, "preferences")
