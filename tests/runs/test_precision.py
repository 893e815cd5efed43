"""Which precision a model is used in: what is asked for, what is measured and kept, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import regard
from regard.core.model import Model
from regard.core.packed import PackedDense, PackedLookup
from regard.errors import RegardWarning, SpecError
from regard.models import preset
from regard.runs.load import load_bundle
from regard.runs.precision import PrecisionChoice, choose_precision, find_fastest, recall_choice, use_precision
from regard.runs.removal import remove_run
from regard.runs.resolve import CHOICE
from tests.cli.test_cli import regard as run_here

TEXTS = ["the red cat sleeps", "a green bird"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("precision")
    tree = {
        "task": "translation",
        "corpus": {"kind": "copy", "sizes": [1, 6], "train": 400, "validation": 20, "test": 20},
        "tokenizer": {"pieces": "given"},
        "model": {"kind": "transformer-tiny", "width": 128, "depth": 1, "heads": 4},
        "train": {"steps": 4, "evaluate": 0, "save": 4},
        "batches": {"tokens": 400},
        "device": "cpu",
        "out": str(folder / "run"),
    }
    (folder / "run.yaml").write_text(json.dumps(tree))
    regard.fit(folder / "run.yaml")
    return str(folder / "run")


@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8", "int4"])
def test_a_run_is_used_in_any_precision(run: str, precision: str) -> None:
    whole, packed = (
        regard.load(run, kind=regard.Translator),
        regard.load(run, kind=regard.Translator, precision=precision),
    )
    assert isinstance(whole.model, Model) and isinstance(packed.model, Model)
    assert not any(isinstance(part, PackedDense) for part in whole.model.modules())
    assert any(isinstance(part, PackedDense) for part in packed.model.modules())
    assert packed.model.parameter_count() == whole.model.parameter_count()
    found = packed.translate_all(["a b c", "b"])
    assert len(list(found)) == 2


def test_what_is_fastest_here_is_chosen_and_kept(run: str) -> None:
    with pytest.warns(RegardWarning, match="all matrices on 8 rows take fp32"):
        first = load_bundle(run, precision="auto").model
    kept = json.loads((Path(run) / CHOICE).read_text())
    assert {"machine", "sizes", "precision", "milliseconds"} == kept.keys()
    assert set(kept["milliseconds"]) >= {"fp32", "int8"} and all(value > 0 for value in kept["milliseconds"].values())
    packed = any(isinstance(part, PackedDense | PackedLookup) for part in first.modules())
    assert packed == (kept["precision"] != "fp32")
    # what is kept is used, and not measured again
    wish = {**kept, "precision": "int4", "milliseconds": {"int4": 1.0}}
    (Path(run) / CHOICE).write_text(json.dumps(wish))
    with pytest.warns(RegardWarning, match="precision int4: .* take int4 1 ms"):
        load_bundle(run, precision="auto")
    for damage in ("", "[]", json.dumps({**kept, "machine": "another"}), json.dumps({**kept, "precision": "int3"})):
        (Path(run) / CHOICE).write_text(damage)
        assert recall_choice(run, load_bundle(run).model) is None


def test_fp32_is_kept_unless_another_is_clearly_faster() -> None:
    times = {"fp32": 1.0, "fp16": 0.95, "bf16": 2.0, "int8": 0.92}
    assert find_fastest(times) == "fp32"
    assert find_fastest({**times, "int8": 0.5}) == "int8"
    assert find_fastest({"fp32": 1.0}) == "fp32"  # where no other kernel is to be had
    found = choose_precision(preset("gpt2", width=128, depth=1, vocabulary=400).build("meta"))
    assert set(found.milliseconds) == {"fp32", "fp16", "bf16", "int8"}
    assert all(0 < value < float("inf") for value in found.milliseconds.values())


def test_a_model_of_which_little_can_be_packed_is_told() -> None:
    with pytest.warns(RegardWarning, match="precision int8: 0% of the weights are packed"):
        use_precision(preset("lstm", width=16, depth=1, vocabulary=40).build(), "int8", "run")


def test_a_choice_tells_why() -> None:
    told = str(PrecisionChoice("int8", {"fp32": 12.34, "int8": 3.1}))
    assert told == "precision int8: all matrices on 8 rows take fp32 12 ms, int8 3.1 ms"


def test_unknown_precisions_are_refused_with_what_is_known() -> None:
    with pytest.raises(SpecError, match="int9: unknown; known: auto, bf16"):
        use_precision(torch.nn.Linear(2, 2), "int9", "run")


def test_verbs_take_a_precision(run: str, tmp_path: Path) -> None:
    plain, packed = (run_here("translate", run, "a b", "c", *more) for more in ([], ["--precision", "int8"]))
    assert plain.returncode == packed.returncode == 0, packed.stderr
    assert len(packed.stdout.splitlines()) == 2
    done = run_here("eval", run, "--precision", "int8", "--record", str(tmp_path / "results.md"), "--json")
    assert done.returncode == 0, done.stderr
    assert "--precision int8 --beam" in (tmp_path / "results.md").read_text()
    assert run_here("translate", run, "a", "--precision", "double").returncode == 2


def test_a_choice_is_deleted_with_its_run(run: str) -> None:
    (Path(run) / CHOICE).write_text("{}")
    assert remove_run(Path(run)).left == [] and not Path(run).exists()
