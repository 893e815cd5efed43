"""The house's own rules: imports go one way, nothing heavy is loaded early, and nothing executable is."""

from __future__ import annotations

import ast
import importlib
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "regard"

# what each room may import of the others; errors and config belong to everybody
ARROWS = {
    "host": {"kernels"},
    "kernels": set(),
    "core": {"kernels"},
    "parts": {"core", "kernels"},
    "mixers": {"core", "parts"},
    "models": {"core", "parts", "mixers"},
    "laws": {"core", "parts", "mixers", "host"},
    "data": {"core", "host"},
    "decode": {"core", "data", "kernels"},
    "tasks": {"core", "data", "decode", "host", "kernels"},
    "train": {"core", "data", "tasks", "host", "kernels"},
    "hub": {"core", "parts", "mixers", "models", "data", "decode", "tasks", "train", "host"},
    "lens": {"core", "data", "decode", "tasks", "train", "host"},
    "runs": {"core", "parts", "mixers", "models", "data", "decode", "tasks", "train", "hub", "lens", "host"},
    "lab": {"core", "parts", "mixers", "models", "data", "decode", "tasks", "train", "lens", "runs", "host"},
}
COMMON = {"errors", "config"}
TOP = {"__init__.py", "__main__.py", "errors.py", "config.py"}


def imported(path: Path) -> set[str]:
    """The parts of the house that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found |= {name.split(".")[1] for name in names if name and name.startswith("regard.")}
    return found


@pytest.mark.parametrize("folder", ARROWS)
def test_imports_go_one_way(folder: str) -> None:
    for path in (PACKAGE / folder).rglob("*.py"):
        strays = imported(path) - ARROWS[folder] - COMMON - {folder}
        assert not strays, f"{path.relative_to(PACKAGE)} imports {strays}"


def test_every_folder_has_its_arrows() -> None:
    """The command line stands on top, and may import whatever it calls."""
    assert {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} == {*ARROWS, "cli"}
    assert not any("cli" in imported(path) for folder in ARROWS for path in (PACKAGE / folder).rglob("*.py"))


def test_one_door_leads_to_code_from_outside() -> None:
    """A plug-in is run because a user named or installed it; what is imported elsewhere is this package alone."""
    doors = {path.name for path in PACKAGE.rglob("*.py") if "spec_from_file_location" in path.read_text()}
    assert doors == {"plugins.py"}
    imports = {
        path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if "import_module" in path.read_text()
    }
    assert imports == {"__init__.py", "cli/__init__.py", "core/registry.py", "core/plugins.py"}
    outside = {path.name for path in PACKAGE.rglob("*.py") if re.search(r"\buse\(", path.read_text())}
    # the door itself, a run file that is trained, --uses, and what `regard laws` is told to try
    assert outside == {"plugins.py", "uses.py", "arguments.py", "find.py"}


@pytest.mark.parametrize("words", ["import pickle", "pickle.", "torch.load", "eval(", "exec(", "yaml.load("])
def test_nothing_executable_is_loaded(words: str) -> None:
    for path in PACKAGE.rglob("*.py"):
        code = path.read_text().replace(".eval(", "")
        assert words not in code, path


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_importing_regard_imports_no_torch() -> None:
    assert python("import sys, regard; print('torch' in sys.modules)").strip() == "False"


def test_help_imports_no_torch_and_is_quick() -> None:
    loaded = python(
        "import sys\nfrom regard.cli import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\nprint('torch' in sys.modules)"
    )
    assert loaded.strip().endswith("False")
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "regard", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.8  # of computing; under 0.3 s on a quiet machine, and a busy one slows down what computes


def test_no_public_name_is_a_submodule_too() -> None:
    """Importing a submodule binds its name in the package, and would take a public name's place."""
    import regard

    modules = {path.stem for path in PACKAGE.iterdir() if path.stem != "__pycache__"}
    assert not modules & set(regard.__all__)
    for name, module in regard.SURFACE.items():
        assert getattr(regard, name) is getattr(importlib.import_module(module), name), name


def test_only_the_rooms_and_four_files_stand_at_the_top() -> None:
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} <= TOP | {"py.typed"}


def test_only_the_command_line_prints() -> None:
    """What a verb does can be called from Python, and returns a value."""
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "cli":
            calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
            assert not any(isinstance(call, ast.Name) and call.id == "print" for call in calls), path


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    import regard

    assert regard.preset("gpt2", depth=1).decoder is not None
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = regard.nothing_of_the_kind


# past participles of verbs that don't end in -ed; those that are their own infinitive (read, put, cut) can't be told
IRREGULAR = re.compile(
    "begun|bound|brought|built|done|drawn|found|given|grown|held|hidden|kept|known|laid|left|lost|made|met|said|seen|"
    "sent|shown|spoken|taken|told|written"
)
VERBS = {"embed", "feed", "need", "proceed", "seed", "speed"}  # infinitives that end like a participle


def test_functions_are_verbs() -> None:
    """A function is named by what it does, not by what has happened to its argument."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                name = node.name.strip("_")
                bare = IRREGULAR.fullmatch(name) or ("_" not in name and name.endswith("ed") and name not in VERBS)
                assert not bare, f"{path.relative_to(PACKAGE)}: {node.name}"


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, Path] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                assert node.name not in places, f"{node.name}: {path} and {places[node.name]}"
                places[node.name] = path


def test_no_file_needs_much_scrolling() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 400, path
