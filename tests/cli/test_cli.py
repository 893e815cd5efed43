"""The command line as a stranger meets it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from regard.cli import run, wrap
from regard.models import presets


@dataclass
class Done:
    """What a command left: its exit status and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def regard(*words: str) -> Done:
    """Run the program here, as its entry point does, without paying for another start."""
    out, err = io.StringIO(), io.StringIO()
    with patch.object(sys, "argv", ["regard", *words]), redirect_stdout(out), redirect_stderr(err):
        try:
            run()
        except SystemExit as stop:
            return Done(int(stop.code or 0), out.getvalue(), err.getvalue())
    return Done(0, out.getvalue(), err.getvalue())


def shown(*words: str) -> dict[str, Any]:
    done = regard("show", *words, "--json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "regard", "show", "gpt22"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "did you mean 'gpt2'" in done.stderr
    assert "Traceback" not in done.stderr


def leaves(node: dict[str, Any]) -> int:
    """Parameters as the shapes give them."""
    if "shape" in node:
        count = 1
        for size in node["shape"]:
            count *= size
        return count
    return node.get("repeat", 1) * sum(leaves(child) for child in node.get("children", []))


def test_show_prints_the_tree_with_shapes_parameters_and_state() -> None:
    done = regard("show", "transformer-tiny")
    assert done.returncode == 0
    for piece in ("blocks.0-3", "cross", "attention", "8,000 × 128", "2,349,568", "bytes a generated token"):
        assert piece in done.stdout
    assert "\x1b" not in done.stdout  # no escape codes off a terminal
    assert done.stderr == ""


def test_show_takes_settings_and_gives_json() -> None:
    drawn = shown("gpt2", "depth=4", "width=128")
    assert drawn["parameters"] == 50257 * 128 + 1024 * 128 + 4 * (12 * 128**2 + 13 * 128) + 2 * 128
    assert drawn["state_bytes_per_token"] == 4 * 2 * 128 * 4  # layers, key and value, width, bytes
    assert drawn["tree"]["name"] == "gpt2"
    assert leaves(drawn["tree"]) == drawn["parameters"]


@pytest.mark.parametrize(
    ("words", "token", "source", "fixed"),
    [
        (["lstm", "width=64", "depth=3"], 0, 0, 3 * 2 * 64 * 4),
        (["llama-tiny"], 4 * 2 * 2 * 32 * 4, 0, 0),
        (["mistral-7b"], 32 * 2 * 8 * 128 * 4, 0, 0),
        (["deepseek-v3"], 61 * (512 + 64) * 4, 0, 0),
        (["mamba-130m"], 0, 0, 24 * (3 + 16) * 1536 * 4),
        (["transformer-tiny"], 4 * 2 * 128 * 4, (4 * 2 + 1) * 128 * 4, 0),
        (["bert-base"], 0, 0, 0),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_state_bytes_are_the_formula(words: list[str], token: int, source: int, fixed: int) -> None:
    drawn = shown(*words)
    assert drawn["state_bytes_per_token"] == token
    assert drawn["state_bytes_per_source_token"] == source
    assert drawn["state_bytes_fixed"] == fixed


def test_show_of_the_largest_model_is_quick_and_small() -> None:
    """Under 3 s of computing and 1 GB in a process of its own; or under twice what importing torch takes there."""
    code = (
        "import time; start = time.process_time()\n"
        "from regard.cli import app\n"
        "try: app(['show', 'deepseek-v3', '--json'])\nexcept SystemExit: pass\n"
        "seconds = time.process_time() - start\n"
        "import sys; from regard.host.machine import peak_memory; print(seconds, peak_memory(), file=sys.stderr)"
    )
    bare = "import time; start = time.process_time(); import torch; print(time.process_time() - start)"
    seconds, imports = [], []
    for _ in range(3):
        alone = subprocess.run([sys.executable, "-c", bare], capture_output=True, text=True, check=True)
        imports.append(float(alone.stdout))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["parameters"] == 671_026_419_200
        elapsed, size = done.stderr.split()
        assert int(size) < 10**9
        seconds.append(float(elapsed))
    assert min(seconds) < max(3, 2 * min(imports))


def test_show_without_a_name_lists_every_preset() -> None:
    listed = json.loads(regard("show", "--json").stdout)
    assert {name for names in listed.values() for name in names} == set(presets())


@pytest.mark.parametrize(
    ("words", "pieces"),
    [
        (["gpt22"], ["'gpt22'", "did you mean 'gpt2'"]),
        (["gpt2", "widht=128"], ["widht", "did you mean 'width'"]),
        (["gpt2", "heads=7"], ["width 768 is not divisible by heads 7", "heads=6"]),
        (["gpt2", "depth=-1", "width=x"], ["depth", "-1", "width", "'x'"]),
        (["gpt2", "width=1000000000000"], ["width", "1000000000000"]),
        (["gpt2", "depth=1000000"], ["depth", "1000000"]),
        (["gpt2", "depth"], ["'depth' is not a setting", "key=value"]),
        (["llama3-8b", "kv_heads=5"], ["heads 32 is not divisible by kv_heads 5", "kv_heads=4"]),
        (["transformer-tiny", "mix=atention"], ["mix", "'atention'", "did you mean 'attention'"]),
        (["luong", "score.kind=reduced", "score.rnak=3"], ["score.rnak", "did you mean 'rank'"]),
        (["mixtral-8x7b", "top=9"], ["top", "9", "8"]),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_clear_message(words: list[str], pieces: list[str]) -> None:
    done = regard("show", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for piece in pieces:
        assert piece in done.stderr


@pytest.mark.parametrize(
    ("words", "pieces"),
    [
        (["gpt2", "name=3"], ["name: unknown setting"]),
        (["rnn", "ffn.hidden=2"], ["ffn: rnn has none", "which kind", "ffn.kind=feedforward"]),
        (["bert-tiny", "head=classes"], ["head", "'pooler' or 'masking'"]),
        (["bahdanau", "width=15"], ["width 15", "width=16"]),
        (["elmo", "width=15"], ["width 15", "width=16"]),
        (["gpt2", "mix=attentive"], ["attentive looks at a memory", "gpt2 has no encoder", "mix=recurrent"]),
        (["deepseek-tiny", "dense=16777216"], ["dense", "16777216"]),
    ],
    ids=" ".join,
)
def test_a_hint_is_something_that_helps(words: list[str], pieces: list[str]) -> None:
    done = regard("show", *words)
    assert done.returncode == 2
    assert "function-" not in done.stderr
    assert "Pydantic" not in done.stderr
    for piece in pieces:
        assert piece in done.stderr


def test_a_message_is_as_wide_as_the_terminal_and_its_words_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    long = "x" * 60
    lines = wrap(f"regard: {'some words ' * 9}\n  try: --one-thing {long} and-then-another-one").splitlines()
    assert all(len(line) <= 40 or line.strip() == long for line in lines)
    assert any("and-then-another-one" in line for line in lines)
    assert [line for line in lines if line.startswith("  try: --one-thing")]
