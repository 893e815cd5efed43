"""Texts as people type them, in files, and through pipes: one manner for all verbs."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from regard.cli import texts as module
from regard.cli.progress import Work
from regard.cli.texts import ask_each
from regard.data.lines import LONGEST
from regard.errors import InputError, SpecError
from tests.cli.test_cli import Done, regard
from tests.cli.test_verbs import told, typed
from tests.runs.test_tasks import RUNS, train

NAMES = ("translation", "language", "masking", "classification", "tagging", "embedding")
VERBS = {
    "translation": ["translate", "--beam", "1"],
    "language": ["generate", "--tokens", "3"],
    "masking": ["fill"],
    "classification": ["classify"],
    "tagging": ["tag"],
    "embedding": ["embed"],
}
GOOD, OTHER = "the [MASK] cat", "a [MASK] dog"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    torch.set_num_threads(1)
    found = {}
    for name in NAMES:
        folder = tmp_path_factory.mktemp(name)
        done = train(folder, RUNS[name], "train.steps=2", "train.evaluate=0")
        assert done.returncode == 0, done.stderr
        found[name] = folder / "run"
    return found


def ask(runs: dict[str, Path], name: str, *words: str) -> Done:
    verb, *options = VERBS[name]
    return regard(verb, str(runs[name]), *words, *options)


@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_answered_the_same_however_it_comes(runs: dict[str, Path], name: str, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text(f"{GOOD}\n")
    (tmp_path / "two.txt").write_text(f"{OTHER}\n")
    words = [word for file in ("one.txt", "two.txt") for word in ("--file", str(tmp_path / file))]
    verb, *options = VERBS[name]
    ways = [
        ask(runs, name, GOOD, OTHER, "--json"),
        ask(runs, name, *words, "--json"),
        typed(f"{GOOD}\n{OTHER}\n", verb, str(runs[name]), *options, "--json"),
        typed(f"{GOOD}\n{OTHER}\n", verb, str(runs[name]), "-", *options, "--json"),
    ]
    found = [told(way) for way in ways]
    assert found[0] == found[1] == found[2] == found[3]
    assert len(found[0]) == 2
    assert found[0][0] != found[0][1]


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_line_stays_empty(runs: dict[str, Path], name: str) -> None:
    verb, *options = VERBS[name]
    plain = typed(f"{GOOD}\n\n{GOOD}\n", verb, str(runs[name]), *options)
    assert plain.returncode == 0, plain.stderr
    first, second = (part for part in plain.stdout.split("\n\n") if part.strip())
    assert first.strip() == second.strip()
    lines = told(typed(f"{GOOD}\n \n", verb, str(runs[name]), *options, "--json"))
    assert len(lines) == 2
    assert not any(lines[1][key] for key in ("label", "tags", "vector", "guesses", "tokens") if key in lines[1])


@pytest.mark.parametrize("name", NAMES)
def test_a_bad_line_does_not_lose_the_rest(runs: dict[str, Path], name: str, tmp_path: Path) -> None:
    """Neither one that can't be read, nor one that the model refuses."""
    bad = "x" * (LONGEST + 5)
    (tmp_path / "in.txt").write_text(f"{GOOD}\n{bad}\n{GOOD}\n")
    done = ask(runs, name, "--file", str(tmp_path / "in.txt"), "--json")
    assert done.returncode == 3
    assert f"in.txt:2: longer than {LONGEST:,} bytes" in done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 3
    assert "error" in lines[1] and "error" not in lines[0]
    assert lines[0] == lines[2]


@pytest.mark.parametrize("name", ["language", "masking"])
def test_a_line_that_the_model_refuses_has_an_empty_answer(runs: dict[str, Path], name: str) -> None:
    bad = {"language": "cat " * 100, "masking": "nothing is hidden"}[name]
    verb, *options = VERBS[name]
    done = typed(f"{GOOD}\n{bad}\n{GOOD}\n", verb, str(runs[name]), *options)
    assert done.returncode == 3
    assert "regard: line 2: " in done.stderr
    assert "no answer for 1 of the texts: line 2" in done.stderr
    assert done.stdout.count("cat") >= 2
    one = ask(runs, name, bad)  # alone there is nothing to lose, and the way out is told
    assert one.returncode == 3
    assert "try: " in one.stderr
    assert one.stdout == ""


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_file_is_never_taken_for_a_text(runs: dict[str, Path], name: str, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(f"{GOOD}\n")
    done = ask(runs, name, str(tmp_path / "in.txt"))
    assert done.returncode == SpecError.status
    assert f"--file {tmp_path / 'in.txt'}" in done.stderr
    assert done.stdout == ""


def test_generate_takes_prompts_in_the_old_way_too(runs: dict[str, Path]) -> None:
    run = str(runs["language"])
    new = regard("generate", run, "the", "--tokens", "4").stdout
    assert new.startswith("the")
    assert regard("generate", run, "--prompt", "the", "--tokens", "4").stdout == new
    assert typed("the", "generate", run, "--prompt", "-", "--tokens", "4").stdout == new
    assert typed("the\n", "generate", run, "--tokens", "4").stdout == new
    nothing = regard("generate", run, "--prompt", "", "--tokens", "4").stdout
    assert typed("", "generate", run, "--tokens", "4").stdout == nothing
    several = regard("generate", run, "the", "--prompt", "the", "--tokens", "4").stdout
    assert several == f"{new}\n{new}"


def test_vectors_in_a_file_have_a_row_for_each_line(runs: dict[str, Path], tmp_path: Path) -> None:
    import numpy as np

    (tmp_path / "in.txt").write_text(f"the cat\n\n{'x' * (LONGEST + 5)}\na dog\n")
    words = ["--file", str(tmp_path / "in.txt")]
    done = ask(runs, "embedding", *words, "--out", str(tmp_path / "v.npy"))
    assert done.returncode == 3
    rows = np.load(tmp_path / "v.npy")
    assert [bool(row.any()) for row in rows] == [True, False, False, True]
    assert ask(runs, "embedding", *words, "--index", str(tmp_path / "index")).returncode == 3
    hits = told(regard("search", str(tmp_path / "index"), "a dog", "--json"))
    assert sorted(hit["line"] for hit in hits) == [1, 4]


def test_lines_are_answered_in_windows(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of any length: what was answered is out before the rest is read."""
    monkeypatch.setattr(module, "WINDOW", 2)
    out = io.StringIO()

    class Lines(io.RawIOBase):
        count = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any, /) -> int:
            if self.count == 40:
                assert len(out.getvalue().splitlines()) >= 30
                return 0
            self.count += 1
            line = f"the {self.count}\n".encode()
            buffer[: len(line)] = line
            return len(line)

    class Stdin:
        buffer = Lines()

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(module.answer_texts, "__defaults__", (2, False))
    with patch.object(sys, "stdin", Stdin()), patch.object(sys, "stdout", out):
        from regard.cli import app

        with pytest.raises(SystemExit) as stop:
            app(["classify", str(runs["classification"])])
    assert not stop.value.code
    assert len(out.getvalue().splitlines()) == 40


def test_what_fails_together_is_asked_again_apart() -> None:
    asked = []

    def answer(texts: list[str]) -> list[str]:
        asked.append(len(texts))
        if "bad" in texts:
            raise InputError("no")
        return [text.upper() for text in texts]

    found = ask_each(answer, ["a", "b", "bad", "c", *"defghijklmno"])
    assert [item if isinstance(item, str) else "?" for item in found] == ["A", "B", "?", "C", *"DEFGHIJKLMNO"]
    assert len(asked) == 9  # halves, and not one by one
    with pytest.raises(SpecError):  # a mistake in the settings isn't a line's fault
        ask_each(lambda _: (_ for _ in ()).throw(SpecError("no")), ["a", "b"])


def test_words_that_cannot_be_written_are_nobodys_text(runs: dict[str, Path]) -> None:
    done = ask(runs, "translation", "the cat", "a dog", "--require", "ж")
    assert done.returncode == 3
    assert "'ж' can't be written" in done.stderr
    assert "text 1" not in done.stderr


def test_progress_is_told_now_and_then_where_there_is_no_terminal(
    runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.cli.progress.EVERY", 0.001)
    lines = "the cat\n" * 600
    done = typed(lines, "classify", str(runs["classification"]))
    assert "regard: classifying" in done.stderr
    assert len(done.stdout.splitlines()) == 600
    shown = regard("verify", str(runs["classification"]), "--steps", "4")
    assert "regard: verifying, steps" in shown.stderr


def test_progress_says_what_is_known() -> None:
    work = Work("translating", 2000)
    assert work.describe() == "translating  0 of 2,000  0%  0:00"
    work.begun -= 12
    work.advance(500)
    assert work.describe() == "translating  500 of 2,000  25%  0:12, 0:36 left"
    assert Work("reading", None).describe() == "reading  0:00"


@pytest.mark.parametrize("name", ["translation", "language"])
def test_tokens_are_pieces_numbers_and_bytes(runs: dict[str, Path], name: str) -> None:
    text = "the cat"
    (line,) = told(regard("tokens", str(runs[name]), text, "--json"))
    assert "".join(token["piece"] for token in line["tokens"]).replace("▁", " ").strip() == text
    assert sum(token["bytes"] for token in line["tokens"]) == len(text)
    table = regard("tokens", str(runs[name]), text).stdout
    assert all(str(token["number"]) in table for token in line["tokens"])
    assert f"{len(line['tokens'])} tokens, {len(text)} bytes" in table
