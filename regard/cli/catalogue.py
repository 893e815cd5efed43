"""The presets by their names alone, read off the families' sources: to list or complete them, torch isn't needed.

A family is one call of `Family` whose third argument is a mapping in place, and the keys of that are its presets. A
test holds this list to the one that importing the families gives.
"""

from __future__ import annotations

import ast
from pathlib import Path

MODELS = Path(__file__).parent.parent / "models"


def list_presets() -> dict[str, list[str]]:
    """The presets of each family of ours; those of plug-ins aren't among them."""
    found = {}
    for path in sorted(MODELS.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        kinds = {node.name: _read_kind(node) for node in tree.body if isinstance(node, ast.ClassDef)}
        for node in tree.body:
            call = node.value if isinstance(node, ast.Assign) else None
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "Family":
                continue
            settings, _, presets, *_ = call.args
            if isinstance(settings, ast.Name) and isinstance(presets, ast.Dict):
                names = [key.value for key in presets.keys if isinstance(key, ast.Constant)]
                found[kinds[settings.id]] = [str(name) for name in names]
    return dict(sorted(found.items()))


def _read_kind(node: ast.ClassDef) -> str:
    """The kind that a class of settings has."""
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.target.id == "kind":
            return str(line.value.value) if isinstance(line.value, ast.Constant) else node.name
    return node.name
