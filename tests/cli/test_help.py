"""What the program says of itself, and what a shell may complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import regard as package
from regard.cli import VERBS as VERB_FILES
from regard.cli import app, find_verb
from regard.cli.catalogue import list_presets
from regard.cli.completion import complete_experiments, complete_presets, complete_runs
from regard.lab.apparatus.experiment import Experiment
from regard.models import families
from tests.cli.test_cli import regard

VERBS = [command.name or str(command.callback and command.callback.__name__) for command in app.registered_commands]
PANELS = ("Train, and look after runs", "Ask a model", "Measure and look inside", "Bring in and send out")


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env={**os.environ, **environment}
    )
    return done.stdout


@pytest.mark.parametrize("verb", [None, *VERBS])
def test_every_page_of_help_is_plain_and_fits_80_columns(verb: str | None) -> None:
    words = [] if verb is None else [verb]
    short, long = regard(*words, "-h"), regard(*words, "--help")
    assert short == long
    assert short.returncode == 0
    assert max(map(len, short.stdout.splitlines())) <= 80
    assert not set("│╭╰─\x1b") & set(short.stdout)
    for noise in ("<", "BOOLEAN", "INTEGER", "--no-json", "[default", "[required"):
        assert noise not in short.stdout, noise


def test_help_groups_every_verb() -> None:
    page = regard("--help").stdout
    places = [page.index(f"{panel}:") for panel in PANELS]
    assert places == sorted(places)
    listed = re.findall(r"^  ([a-z]+)  ", page, re.MULTILINE)
    assert sorted(listed) == sorted(VERBS)


def test_what_a_text_says_in_brackets_is_not_lost() -> None:
    assert "[the model's own, or 5]" in " ".join(regard("translate", "--help").stdout.split())


def test_version() -> None:
    assert regard("--version").stdout == f"regard {package.__version__}\n"


def test_a_mistake_in_the_words_is_told_without_boxes() -> None:
    done = regard("translate")
    assert done.returncode == 2
    assert "Usage: regard translate [OPTIONS] RUN [TEXT...]" in done.stderr
    assert "Missing argument 'RUN'" in done.stderr
    assert not set("│╭╰\x1b") & set(done.stderr)


def test_the_catalogue_is_what_importing_the_families_gives() -> None:
    assert list_presets() == {name: list(family.presets) for name, family in families().items()}


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["translate", "-h"], ["show"], ["show", "--json"], ["runs", "."]], ids=" ".join
)
def test_what_needs_no_torch_does_not_import_it(words: list[str], tmp_path: Path) -> None:
    """Nor anything else that is heavy: the number of modules stands for the time, which a busy machine would blur."""
    code = (
        f"import os, sys\nos.chdir({str(tmp_path)!r})\nfrom regard.cli import app\n"
        f"try: app({words!r})\nexcept SystemExit: pass\n"
        "print(*(name in sys.modules for name in ('torch', 'numpy', 'tokenizers')), len(sys.modules))"
    )
    *heavy, count = python(code).split()[-4:]
    assert heavy == ["False"] * 3
    assert int(count) < 400


def count_imports(words: list[str]) -> tuple[set[str], int]:
    """The modules that a verb's process ends with, and how many of them a process that only imports torch hasn't."""
    code = (
        f"import sys, torch\nalone = set(sys.modules)\nsys.argv = {['regard', *words]!r}\nfrom regard.cli import run\n"
        "try: run()\nexcept SystemExit as stop: assert not stop.code, stop.code\n"
        "print('beside torch:', len(set(sys.modules) - alone), *sys.modules)"
    )
    count, *names = python(code).rpartition("beside torch: ")[2].split()
    return set(names), int(count)


def test_a_line_is_translated_without_what_it_does_not_need(tmp_path: Path) -> None:
    """The number of modules stands for the time: `python -m bench.starting` holds that to torch's own import."""
    from bench.material import make_run

    run = make_run(tmp_path / "run", "translation", "transformer-tiny", vocabulary=40, width=16, depth=1, heads=2)
    names, count = count_imports(["translate", str(run), "w1 w2 w3", "--set", "max_tokens=3"])
    ours = {name.removeprefix("regard.") for name in names if name.startswith("regard.")}
    assert {name for name in ours if name.startswith("mixers.")} == {"mixers.attention"}
    assert {name for name in ours if name.startswith("models.")} == set()
    assert not ours & {"data.sample", "data.corpora", "data.readers", "tasks.language", "train.optimizer", "hub.load"}
    assert not {"cli.train", "cli.generate"} & ours  # nor other verbs
    assert not names & {"sacrebleu", "transformers", "scipy", "matplotlib", "torch._dynamo", "torch.onnx"}
    assert count < 320


def test_every_verb_is_found_by_its_file() -> None:
    """A process enters the file of the verb that was typed, so the list of them must be what importing all gives."""
    found: dict[str, list[str]] = {}
    for command in app.registered_commands:
        assert command.callback is not None
        file = command.callback.__module__.rpartition(".")[2]
        found.setdefault(file, []).append(command.name or command.callback.__name__)
    assert {file: tuple(verbs) for file, verbs in found.items()} == VERB_FILES


@pytest.mark.parametrize(
    ("words", "verb"),
    [("translate run -h", "translate"), ("--uses a.py train b", "train"), ("--uses=a.py rm c", "rm"), ("-h", None)],
)
def test_the_verb_that_is_typed_is_found(words: str, verb: str | None) -> None:
    assert find_verb(words.split()) == verb


def test_the_shell_completes_experiments_by_their_files() -> None:
    import regard.lab  # noqa: F401  enters every experiment

    named = {name for name, one in Experiment.known.items() if type(one).__module__ == f"regard.lab.{name}"}
    assert complete_experiments("") == [*sorted(named), "all"]
    assert complete_experiments("gra") == ["gradients", "graphs"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/en-fr", "runs/deep/er", "rubbish"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("runs/en-fr/run.yaml", "runs/deep/er/import.json"):
        (tmp_path / name).write_text("")
    (tmp_path / "runs/en-fr/checkpoints/step-20").mkdir(parents=True)
    return tmp_path


def test_runs_presets_and_checkpoints_are_completed(place: Path) -> None:
    assert complete_runs("ru") == ["runs/deep/er", "runs/en-fr", "rubbish/", "runs/"]
    assert complete_runs("runs/e") == ["runs/en-fr"]
    assert complete_runs(f"{place}/ru") == [f"{place}/rubbish/", f"{place}/runs/"]
    assert complete_runs("runs/en-fr@") == ["runs/en-fr@best", "runs/en-fr@latest", "runs/en-fr@step-20"]
    assert complete_presets("gpt2-m") == ["gpt2-medium"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("tra", "train\ntranslate"), ("translate ru", "runs/deep/er\nruns/en-fr"), ("show gpt2-x", "gpt2-xl")],
)
def test_a_shell_completes_without_torch(place: Path, typed: str, expected: str) -> None:
    words = f"regard {typed}"
    code = (
        "import atexit, sys\natexit.register(lambda: print('torch' in sys.modules))\n"
        "sys.argv = ['regard']\nfrom regard.cli import run\nrun()"
    )
    told = python(code, _REGARD_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))
    assert told.startswith(expected)
    assert told.strip().endswith("False")


def test_completion_can_be_shown_for_a_shell() -> None:
    done = regard("--show-completion", "bash")
    script = done.stdout if done.returncode == 0 else ""
    if not script:  # the shell is found out by the program itself
        environment = {**os.environ, "SHELL": "/bin/bash"}
        words = ["bash", "-c", f"{sys.executable} -m regard --show-completion; true"]
        script = subprocess.run(words, capture_output=True, text=True, env=environment, check=True).stdout
    assert "_REGARD_COMPLETE=complete_bash" in script
