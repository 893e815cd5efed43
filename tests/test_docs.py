"""Pages that name files and functions name those that are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
WALK = (ROOT / "docs" / "walk.md").read_text()


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
