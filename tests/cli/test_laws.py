"""`regard laws` as a stranger types it: on a file of their own, on torch's modules, on ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.laws import LAWS
from tests.cli.test_cli import regard
from tests.test_plugins import EXAMPLE, another_process

MINE = '''
import torch
from torch import nn


class Shift(nn.Module):
    """Each position takes the next one's vector: it looks ahead."""

    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return self.inner(x.roll(-1, 1))


class Gate(nn.Module):
    def __init__(self, width, kernel):
        super().__init__()


class Outer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.part = Part(width)

    def forward(self, x):
        return self.part(x) + 1


class Part(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return self.inner(x)


linear = nn.Linear(8, 8)


def make(width, bias=True):
    return nn.Linear(width, width, bias=bias)
'''


@pytest.fixture(autouse=True)
def apart() -> Iterator[None]:
    with another_process():
        yield


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


def test_all_in_a_file_is_tried_each_in_a_block_of_its_own(mine: Path) -> None:
    done = regard("laws", str(mine))
    assert done.returncode == 0, done.stdout + done.stderr
    heads = re.findall(r"^(\w+), 1 variant at width (\d+)", done.stdout, re.MULTILINE)
    assert heads == [("Shift", "16"), ("Outer", "16"), ("linear", "8")]
    assert "Gate wasn't tried: Gate needs kernel; try --set kernel=…" in done.stdout
    assert "Part wasn't tried: a part of Outer" in done.stdout
    assert "–       no position sees a later one: it was seen to look ahead" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    blocks = done.stdout.split("\n\n")
    assert len(blocks) == 3
    for law in LAWS:
        for block in blocks:
            assert len(re.findall(rf"^  (held|BROKEN|–) +{re.escape(law.name)}", block, re.MULTILINE)) == 1


def test_a_broken_law_is_told_with_its_smallest_counterexample(mine: Path) -> None:
    done = regard("laws", f"{mine}:Shift", "--causal")
    assert done.returncode == 8
    assert done.stderr == "regard: Shift breaks “no position sees a later one”\n"
    told = " ".join(done.stdout.split())
    assert "BROKEN no position sees a later one smallest 1 row of 2 positions, cut before position 1" in told
    assert re.search(r"there row 0, position 0, channel 0: with what follows changed \S+, as it was \S+, a gap", told)
    assert "why What comes later changes nothing before it: or else" in told
    assert "it rests on “no position sees a later one”" in told


def test_the_same_as_data(mine: Path) -> None:
    done = regard("laws", f"{mine}:Shift", "--causal", "--width", "6", "--json")
    assert done.returncode == 8
    told = json.loads(done.stdout)
    assert (told["name"], told["width"], told["broken"]) == ("Shift", 6, 1)
    assert [each["law"] for each in told["laws"]] == [law.name for law in LAWS]
    assert {each["verdict"] for each in told["laws"]} == {"held", "broken", "doesn't apply"}
    assert all(each.get("reason") for each in told["laws"] if each["verdict"] == "doesn't apply")
    (broken,) = [each for each in told["laws"] if each["verdict"] == "broken"]
    example = broken["counterexample"]
    assert example["case"] == {"rows": 1, "time": 2, "at": 1}
    assert example["place"] == {"row": 0, "position": 0, "channel": 0}
    assert example["gap"] == pytest.approx(abs(example["found"] - example["expected"]))
    assert regard("laws", str(mine), "--json").stdout.count("passed_over") == 2


def test_functions_instances_settings_and_torchs_own(mine: Path) -> None:
    done = regard("laws", f"{mine}:make", "--set", "bias=false", "--width", "4", "--causal")
    assert done.returncode == 0, done.stdout
    assert "make, 1 variant at width 4" in done.stdout
    assert "held    padding at the end changes nothing before it" in done.stdout
    words = ["--set", "batch_first=true", "--set", "dropout=0", "--set", "heads=2", "--any-direction"]
    done = regard("laws", "torch.nn:TransformerEncoderLayer", *words)
    assert done.returncode == 0, done.stdout
    assert "no position sees a later one: it may look ahead, as you say" in " ".join(done.stdout.split())


def test_kinds_of_mixers_and_the_example() -> None:
    done = regard("laws", "mamba")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("mamba, 2 variants at width 16: ")
    done = regard("laws", str(EXAMPLE))
    assert done.returncode == 0, done.stdout
    assert "EMA, 2 variants at width 16: its defaults; gate=False" in done.stdout
    assert "EMA: 34 laws held, 0 broken, 4 not for it\nMovingAverage wasn't tried: a part of EMA\n" in done.stdout
    done = regard("--uses", str(EXAMPLE), "laws", "ema", "--quick", "--set", "longest=5")
    assert done.returncode == 0, done.stdout
    assert "ema, 1 variant at width 16: longest=5.0" in done.stdout


@pytest.mark.parametrize(
    ("text", "word", "status", "told"),
    [
        (None, "none.py", 3, "none.py: No such file"),
        ("1 / 0", "bad.py", 1, "bad.py:1: it can't be imported: ZeroDivisionError"),
        ("1 / 0", "bad.py:Mixer", 1, "bad.py:1: it can't be imported: ZeroDivisionError"),
        (MINE, "own.py:Shif", 2, "own.py has no 'Shif'; did you mean 'Shift'?"),
        (MINE, "own.py:nothing", 2, "has no 'nothing'; known: Gate, "),
        (MINE, "own.py:Gate", 2, "Gate needs kernel\n  try: --set kernel=…"),
        (MINE, "own.py:torch", 2, "laws are for specs, mixers and torch modules"),
        (MINE, "own.py:", 2, "a file or module, and a name in it"),
        ("x = 1", "empty.py", 2, "there is nothing in it that can be tried"),
        ("from torch.nn import Linear", "other.py", 2, "there is nothing in it that can be tried"),
    ],
)
def test_what_cannot_be_tried_is_told(tmp_path: Path, text: str | None, word: str, status: int, told: str) -> None:
    if text is not None:
        (tmp_path / word.partition(":")[0]).write_text(text)
    done = regard("laws", f"{tmp_path}/{word}")
    assert done.returncode == status
    assert told in done.stderr and "Traceback" not in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["atention"], 2, "laws: unknown kind 'atention'; did you mean 'attention'?"),
        (["torch.nn"], 2, "'torch.nn' is no kind of mixer, no file that ends in .py, and no MODULE:NAME"),
        (["torch.nn:Linaer"], 2, "torch.nn has no 'Linaer'; did you mean 'Linear'?"),
        (["no_such_module:X"], 1, "no_such_module: there is no such module here"),
        (["torch.nn:Embedding"], 2, "Embedding needs num_embeddings"),
        (["torch.nn:LSTM", "--set", "input_size=16", "--set", "hidden_size=16"], 3, "to a tuple of 2"),
        (["torch.nn:Linear", "--set", "out_features=3"], 3, "maps (3, 10, 16) to (3, 10, 3)"),
        (["torch.nn:Linear", "--set", "feature=3"], 2, "Linear takes no 'feature'"),
        (["attention", "--causal"], 2, "says itself whether it is causal"),
        (["attention", "--set", "haeds=4"], 2, "haeds: unknown setting; did you mean 'heads'?"),
        (["pool", "--width", "0"], 2, "--width"),
    ],
    ids=str,
)
def test_slips_are_answered(words: list[str], status: int, told: str) -> None:
    done = regard("laws", *words)
    assert done.returncode == status, done.stderr
    assert told in done.stderr and "Traceback" not in done.stderr
