"""Recipes are run files, and the commands in their comments are commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from regard.config import assignments, merge
from regard.runs.spec import RunSpec

RECIPES = sorted((Path(__file__).parent.parent / "recipes").glob("*.yaml"))


def read_commands(text: str) -> list[list[str]]:
    """The words of each `regard train` or `regard folds` of a recipe's comments; a wide gap ends a command."""
    text = re.sub(r"\\\n#\s*", "", text)
    lines = re.findall(r"^#.*?\bregard (?:train|folds) (recipes/.*)", text, re.MULTILINE)
    return [shlex.split(re.split(r"\s{3,}|;|  \(", line)[0]) for line in lines]


def read_others(text: str) -> list[str]:
    """The settings behind `also:`, each of which is one to try alone."""
    lines = re.findall(r"^#.*\balso: (.*)", text, re.MULTILINE)
    found = [word for line in lines for word in re.findall(r"[a-z_.]+=(?:'[^']*'|[^\s,;]+)", line)]
    return [word.replace("'", "") for word in found]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_a_run_file_that_begins_with_what_it_is_and_how_it_is_trained(path: Path) -> None:
    text = path.read_text()
    told = RunSpec.parse(yaml.safe_load(text))
    assert told.out.startswith("runs/")
    assert text.startswith("# ") and re.search(rf"regard (train|folds) (recipes/{path.name}|THIS)", text)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_settings_that_a_recipe_suggests_are_settings(path: Path) -> None:
    text = path.read_text()
    for name, *words in [*read_commands(text), *([f"recipes/{path.name}", word] for word in read_others(text))]:
        tree = yaml.safe_load((path.parent.parent / name).read_text())
        RunSpec.parse(merge(tree, assignments([word for word in words if re.match(r"[a-z_.]+=", word)])))
