"""What a user installs: the core alone does the main jobs, and whatever needs more names the line that installs it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORPUS = "{kind: en-fr, train: 60, validation: 8, test: 8, level: first}"
RUNS = {
    "mine": f"corpus: {CORPUS}\nmodel: {{kind: transformer-tiny, width: 16, depth: 1, heads: 2}}\n",
    "text": f"task: language\ncorpus: {CORPUS}\nmodel: {{kind: decoder-tiny, width: 16, depth: 1, heads: 2}}\n",
}
COMMANDS = [
    ("train", "mine.yaml"),
    ("train", "text.yaml"),
    ("translate", "runs/mine", "--set", "max_tokens=3"),
    ("generate", "runs/text", "--prompt", "the", "--set", "max_tokens=3"),
    ("eval", "runs/mine", "--set", "max_tokens=3"),
]


def test_every_extra_that_an_error_names_is_there() -> None:
    """A pip line that installs nothing would send users in a circle."""
    told = [re.findall(r'MissingPackage\(.*"(\w+)"\)', path.read_text()) for path in (ROOT / "regard").rglob("*.py")]
    extras = {extra for found in told for extra in found}
    assert extras >= {"hub", "onnx", "ctranslate2", "plot"}
    for extra in extras:
        assert PROJECT["optional-dependencies"][extra], extra


@pytest.mark.long
def test_the_wheel_alone_trains_translates_generates_and_evaluates(tmp_path: Path) -> None:
    """With the versions that setting up pins, and nothing that the core doesn't ask for."""
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    pins = {name.lower(): version for name, version in pins.items()}
    core = [re.split(r"[><=]", wanted)[0] for wanted in PROJECT["dependencies"]]
    wanted = [f"{name}=={pins[name.lower()]}" for name in core]
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path / "dist")]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], check=True)
    (built,) = (tmp_path / "dist").glob("*.whl")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted, built], check=True)
    usual = "tokenizer: {vocabulary: 200}\ntrain: {steps: 2}\n"
    for name, text in RUNS.items():
        (tmp_path / f"{name}.yaml").write_text(f"{text}{usual}out: runs/{name}\n")
    for words in COMMANDS:
        done = subprocess.run(
            [python, "-m", "regard", *words],
            input="the cat\n",
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
    lacking = subprocess.run(
        [python, "-m", "regard", "plot", "runs/mine"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "pip install 'regard[plot]'" in lacking.stderr
