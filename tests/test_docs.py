"""Pages that name files, functions, settings and commands name those that are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from regard.cli import app
from regard.config import assignments, merge
from regard.errors import RegardError
from regard.mixers.attention import MultiHeadAttention
from regard.models import presets
from regard.runs.settings import find_pages, list_pages
from regard.runs.spec import RunSpec
from tests.cli.test_cli import regard

ROOT = Path(__file__).parent.parent
WALK, GLOSSARY, COMING = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("walk", "glossary", "coming-from"))
# runs that the settings of a page are tried on: one that takes them all must be there
PAIRS: dict[str, Any] = {"corpus": "en-fr", "model": "transformer-tiny", "train": {"steps": 3}, "out": "runs/x"}
BASES = [
    PAIRS,
    PAIRS | {"model": "bahdanau"},
    PAIRS | {"task": "language", "corpus": "python-stdlib", "model": "gpt2"},
    {name: value for name, value in PAIRS.items() if name != "model"} | {"start": "runs/y"},
    {name: value for name, value in PAIRS.items() if name != "model"},
]


@cache
def names() -> set[str]:
    """Every function, class, method and field of the package, as `name` and as `Class.name`."""
    found = set[str]()
    for path in (ROOT / "regard").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
                fields = [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
                found |= {target.id for target in fields if isinstance(target, ast.Name)}
    return found


def test_every_file_of_the_walk_is_there() -> None:
    paths = re.findall(r"`([a-z_/]+\.py)`", WALK)
    assert len(paths) > 30
    for path in paths:
        assert (ROOT / "regard" / path).is_file() or (ROOT / path).is_file(), path


def test_every_name_of_the_walk_is_there() -> None:
    words = set(re.findall(r"`(_?[A-Za-z][\w.]*)`", WALK))
    code = {word for word in words if "_" in word or word[0].isupper() or "." in word}
    code = {word for word in code if not word.endswith((".py", ".yaml", ".jsonl", ".md")) and not word.isupper()}
    assert len(code) > 40
    for word in code:
        assert word in names() or (ROOT / word).exists(), word


def test_our_words_of_the_glossary_are_words_of_the_code() -> None:
    rows = re.findall(r"^\| (.*?) \|", GLOSSARY, re.MULTILINE)
    words = [word for cell in rows for word in re.findall(r"`(.+?)`", cell)]
    keys = {setting.name for page in list_pages() for setting in page.settings}
    assert len(words) > 70
    assert len(words) == len(set(words)), "a word has one meaning, and stands there once"
    for word in words:
        assert word in names() | keys | {*presets(), *MultiHeadAttention.names}, word


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", COMING, re.DOTALL | re.MULTILINE)


def test_the_python_for_newcomers_runs() -> None:
    found = [run_block(block) for block in blocks("python")]
    assert len(found) == 2
    assert found[0]["logits"].shape == (2, 3, 100)
    assert list(found[0]["look"]) == ["decoder.blocks.0.mix.weights", "decoder.blocks.1.mix.weights"]
    assert found[1]["logits"].shape == (2, 2, 100)
    assert len(found[1]["best"]) == 2


def run_block(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(block, "coming-from.md", "exec"), names)
    return names


def test_the_run_files_for_newcomers_are_run_files() -> None:
    assert len(blocks("yaml")) == 3
    for block in blocks("yaml"):
        RunSpec.parse(yaml.safe_load(block))


def ours() -> list[str]:
    """What stands in the right column between backticks."""
    cells = re.findall(r"^\|.*\| (.*?) \|$", COMING, re.MULTILINE)
    return [code for cell in cells for code in re.findall(r"`(.+?)`", cell)]


def test_the_settings_for_newcomers_are_settings() -> None:
    tried = [code for code in ours() if re.match(r"[a-z_.]+=", code) and "(" not in code and "~" not in code]
    assert len(tried) > 20
    for code in tried:
        assert any(parses(base, code.split()) for base in BASES), code
    keys = [code for code in ours() if re.fullmatch(r"(model|train|task|batches|tokenizer)(\.[a-z_]+)+", code)]
    assert len(keys) > 15
    for key in keys:
        assert find_pages(key), key


def parses(base: dict[str, Any], words: list[str]) -> bool:
    try:
        RunSpec.parse(merge(base, assignments(words)))
    except RegardError:
        return False
    return True


@pytest.mark.parametrize("code", [code for code in ours() if code.startswith("regard ")])
def test_the_commands_for_newcomers_are_commands(code: str) -> None:
    _, verb, *words = code.split()
    found = {
        command.name or command.callback.__name__: command for command in app.registered_commands if command.callback
    }
    assert verb in found
    told = regard(verb, "--help").stdout
    for word in words:
        assert not word.startswith("--") or f"{word} " in told, word


def test_what_newcomers_are_told_is_what_the_program_says(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(PAIRS))
    (session,) = re.findall(r"^```\n(\$ .*?)^```", COMING, re.DOTALL | re.MULTILINE)
    for part in session.removeprefix("$ ").split("\n$ "):
        command, *lines = part.splitlines()
        _, *words = command.split()
        done = regard(*(str(file) if word == "mine.yaml" else word for word in words))
        if words[0] == "settings":
            assert done.stdout.startswith("train.schedule.warmup\t")
            assert all(" ".join(line.split()) in " ".join(done.stdout.split()) for line in lines[2:])
        else:
            assert [line.strip() for line in done.stderr.splitlines()] == [line.strip() for line in lines]
