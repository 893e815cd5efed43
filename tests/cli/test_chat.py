"""Talking with a model, as a person does it."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from regard.cli import app
from tests.cli.test_cli import regard
from tests.cli.test_verbs import typed
from tests.decode.test_generation import saved
from tests.runs.test_tasks import RUNS, train

CHAT = "{% for m in messages %}w1 {{ m.content }} </s> {% endfor %}w2"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("talking")
    assert train(folder, RUNS["language"], "train.steps=2", "train.evaluate=0").returncode == 0
    return str(folder / "run")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model from elsewhere that has a chat template."""
    place = tmp_path_factory.mktemp("chat")
    saved(place, "llama", do_sample=False, max_new_tokens=6)
    (place / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHAT}))
    return place


def test_a_line_is_answered_and_the_model_goes_on(run: str) -> None:
    first = typed("The cat\n", "chat", run, "--tokens", "4", "--temperature", "0")
    assert first.returncode == 0, first.stderr
    plain = regard("generate", run, "The cat", "--tokens", "4", "--temperature", "0")
    assert f"The cat{first.stdout}" == plain.stdout
    both = typed("The cat\n\nThe dog\n", "chat", run, "--tokens", "4", "--temperature", "0")
    assert both.stdout.startswith(first.stdout)
    assert both.stdout.count("\n") == 2  # an empty line says nothing


def test_words_for_the_program(run: str) -> None:
    lines = [
        "/settings top_p=0.5 max_tokens=3",
        "/settings",
        "/settings top_p=7",
        "/nonsense",
        "/help",
        "/reset",
        "The",
    ]
    done = typed("\n".join(lines) + "\n", "chat", run)
    assert done.returncode == 0
    assert "top_p=0.5" in done.stderr and "max_tokens=3" in done.stderr
    assert "top_p" in done.stderr.partition("7")[0]
    assert "no such word: /nonsense" in done.stderr
    assert "Ctrl-C stops an answer" in done.stderr
    assert "a new conversation" in done.stderr


@pytest.mark.parametrize("word", ["/quit", "/exit"])
def test_a_word_ends_the_conversation(run: str, word: str) -> None:
    done = typed(f"{word}\n/reset\n", "chat", run)
    assert done.returncode == 0
    assert "no such word" not in done.stderr and "a new conversation" not in done.stderr


def test_reset_forgets(run: str) -> None:
    words = ["--tokens", "4", "--temperature", "0", "--set", "min_tokens=4"]
    once = typed("The cat\n", "chat", run, *words).stdout
    again = typed("The cat\n/reset\nThe cat\n", "chat", run, *words).stdout
    assert again == once * 2


def test_a_full_context_is_told(run: str) -> None:
    done = typed("The\n" + "cat " * 100 + "\n", "chat", run, "--tokens", "3")
    assert done.returncode == 0
    assert "the context of 32 tokens is full" in done.stderr
    full = typed("The\n", "chat", run, "--tokens", "90", "--set", "min_tokens=90")
    assert "the context of 32 tokens is full; /reset begins anew" in full.stderr


def test_ctrl_c_stops_an_answer_and_not_the_conversation(run: str) -> None:
    class Impatient(io.StringIO):
        writes = 0

        def write(self, text: str) -> int:
            self.writes += 1
            if self.writes == 3:
                os.kill(os.getpid(), signal.SIGINT)
            return super().write(text)

    out, stdin = Impatient(), io.TextIOWrapper(io.BytesIO(b"The\n/settings max_tokens=2 min_tokens=0\nA\n"))
    words = ["chat", run, "--tokens", "25", "--set", "min_tokens=25"]
    before = signal.getsignal(signal.SIGINT)
    with patch.object(sys, "stdin", stdin), patch.object(sys, "stdout", out), pytest.raises(SystemExit) as stop:
        app(words)
    assert not stop.value.code
    assert signal.getsignal(signal.SIGINT) is before
    assert out.getvalue().count("\n") >= 2
    assert out.writes < 25


def test_a_model_with_a_chat_template_is_asked_through_it(folder: Path) -> None:
    done = typed("w5 w6\nw7\n", "chat", str(folder))
    assert done.returncode == 0, done.stderr
    asked = regard("generate", str(folder), "w1 w5 w6 </s> w2")
    assert done.stdout.splitlines()[0].split() == asked.stdout.split()[5:]
    plain = typed("w5 w6\n", "chat", str(folder), "--plain")
    assert plain.stdout.split() == regard("generate", str(folder), "w5 w6").stdout.split()[2:]


@pytest.mark.parametrize(
    ("words", "status", "piece"),
    [
        (["--system", "be kind"], 1, "no chat format"),
        (["--set", "nothing=1"], 2, "nothing"),
    ],
    ids=str,
)
def test_a_mistake_is_told_before_anybody_types(run: str, words: list[str], status: int, piece: str) -> None:
    done = typed("The\n", "chat", run, *words)
    assert done.returncode == status
    assert piece in done.stderr
    assert done.stdout == ""


def test_a_template_that_cannot_be_rendered_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    import shutil

    place = tmp_path / "odd"
    shutil.copytree(folder, place)
    settings: dict[str, Any] = {"chat_template": "{{ messages.__class__.__mro__ }}"}
    (place / "tokenizer_config.json").write_text(json.dumps(settings))
    done = typed("w5\n", "chat", str(place))
    assert done.returncode == 3
    assert "chat template can't be rendered" in done.stderr and "--plain" in done.stderr
    assert typed("w5\n", "chat", str(place), "--plain").returncode == 0


def test_only_a_language_model_talks(tmp_path: Path) -> None:
    assert train(tmp_path, RUNS["masking"], "train.steps=1", "train.evaluate=0").returncode == 0
    done = typed("The\n", "chat", str(tmp_path / "run"))
    assert done.returncode == 3
    assert "regard fill" in done.stderr


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run that learned conversations."""
    folder = tmp_path_factory.mktemp("taught")
    assert train(folder, RUNS["instruction"], "train.steps=2", "train.evaluate=0").returncode == 0
    return str(folder / "run")


def test_a_run_that_learned_conversations_talks_in_its_own_format(taught: str) -> None:
    words = ["--tokens", "6", "--temperature", "0", "--set", "min_tokens=6"]
    done = typed("Where is the key?\n", "chat", taught, *words)
    assert done.returncode == 0, done.stderr
    asked = regard("generate", taught, "Where is the key?", *words)
    assert asked.stdout == f"Where is the key?\n{done.stdout}"  # a text is what a user says
    spelled = regard("generate", taught, "User: Where is the key?\nAssistant:", "--plain", *words)
    assert spelled.stdout.endswith(done.stdout)
    assert typed("Hello\n", "chat", taught, "--system", "be kind", *words).returncode == 0


def test_what_was_said_is_saved_for_our_own_readers_and_may_be_said_again(taught: str, tmp_path: Path) -> None:
    from regard.data.log import Log
    from regard.data.reader import ReaderSpec

    place = tmp_path / "deep" / "talk.jsonl"
    lines = [
        *("/retry", f"/save {place}", "Where is the key?", "/temperature", "/temperature 0", "/retry"),
        *(
            "/temperature hot",
            "/history",
            f"/save {place}",
            "Thank you!",
            f"/save {place}",
            "/save",
            "/reset",
            "/history",
        ),
    ]
    done = typed("\n".join(lines) + "\n", "chat", taught, "--tokens", "5", "--set", "min_tokens=5")
    assert done.returncode == 0, done.stderr
    assert "no answer to take back" in done.stderr and "once something was said" in done.stderr
    assert "(temperature 0.8)" in done.stderr and "(temperature 0)" in done.stderr
    assert "/temperature hot: a number" in done.stderr
    assert done.stderr.count("user: Where is the key?") == 1
    assert "(2 messages added to" in done.stderr and "(4 messages added to" in done.stderr
    reader = ReaderSpec.parse({"path": str(place)})
    short, long = reader.read("conversations", Log())
    assert [message["role"] for message in long["messages"]] == ["user", "assistant"] * 2
    assert long["messages"][:2] == short["messages"] and short["messages"][0]["content"] == "Where is the key?"
    answers = done.stdout.splitlines()
    assert len(answers) == 3 and short["messages"][1]["content"] == answers[1]
