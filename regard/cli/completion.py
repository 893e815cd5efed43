"""What the shell may complete: runs, presets, experiments. It must answer at once, so nothing heavy is imported."""

from __future__ import annotations

import os
from pathlib import Path

MARKS = ("run.yaml", "import.json", "model.json", "config.json")  # of what others call runs, and of Hugging Face layout


def complete_runs(incomplete: str) -> list[str]:
    """Runs below `runs/`, and the folders that begin like what was typed."""
    typed, _, which = incomplete.partition("@")
    if which or incomplete.endswith("@"):
        return [f"{typed}@{name}" for name in _list_checkpoints(Path(typed)) if name.startswith(which)]
    found = [str(path) for path in _list_runs(Path("runs"))] if not incomplete.startswith(("/", ".")) else []
    parent, start = os.path.split(incomplete)
    for path in _list_folders(Path(parent or ".")):
        if path.name.startswith(start) and (start or not path.name.startswith(".")):
            name = os.path.join(parent, path.name)
            found.append(name if _is_model(path) else f"{name}/")
    return [name for name in dict.fromkeys(found) if name.startswith(incomplete)]


def complete_presets(incomplete: str) -> list[str]:
    """Presets by their names, and runs."""
    from regard.cli.catalogue import list_presets

    named = [name for names in list_presets().values() for name in names if name.startswith(incomplete)]
    return [*named, *complete_runs(incomplete)]


def complete_experiments(incomplete: str) -> list[str]:
    """Experiments by the names of their files, and all of them."""
    lab = Path(__file__).parent.parent / "lab"
    names = sorted(path.stem for path in lab.glob("*.py") if path.stem != "__init__")
    return [name for name in (*names, "all") if name.startswith(incomplete)]


def _is_model(folder: Path) -> bool:
    return any((folder / mark).is_file() for mark in MARKS)


def _list_runs(folder: Path, levels: int = 3) -> list[Path]:
    """The runs below a folder, not far down."""
    found: list[Path] = []
    for path in _list_folders(folder):
        if _is_model(path):
            found.append(path)
        elif levels:
            found += _list_runs(path, levels - 1)
    return found


def _list_folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []


def _list_checkpoints(folder: Path) -> list[str]:
    steps = [path.name for path in _list_folders(folder / "checkpoints") if path.name.startswith("step-")]
    average = ["average"] if (folder / "average").is_dir() else []
    return ["best", "latest", *average, *steps] if steps else []
