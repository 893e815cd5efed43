"""Which precision a model is used in: what is asked for, what is measured and kept, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

import regard
from bench.precision import PROMISED, SHARES
from regard.cli import app
from regard.core.model import Model
from regard.core.packed import PackedDense, PackedLookup, find_precision, list_matrices, list_multiplied
from regard.decode.translator import ensemble
from regard.errors import RegardWarning, SpecError
from regard.models import preset
from regard.runs import precision as measurement
from regard.runs.align import align
from regard.runs.compare import compare
from regard.runs.evaluate import TestSet, evaluate
from regard.runs.load import load_bundle
from regard.runs.precision import (
    PIECE,
    SAMPLE,
    PrecisionChoice,
    choose_precision,
    cut_matrix,
    describe_conditions,
    draw_sample,
    find_fastest,
    recall_choice,
    spell_precision,
    use_precision,
)
from regard.runs.prefer import PairDrawing, draw_preferences
from regard.runs.removal import remove_run
from regard.runs.report import collect_report
from regard.runs.resolve import CHOICE
from tests.cli.test_cli import regard as run_here
from tests.cli.test_verbs import told

LINES = ["the red cat sleeps", "a green bird sings today", "the old man runs in the garden"]
# verbs that use no model, that train, and those that take a model as it is: to send it out, or to see how it was made
WITHOUT = {
    *("average", "data", "demo", "doctor", "folds", "import", "lab", "laws", "log", "new", "plan", "plot", "resume"),
    *("rm", "runs", "settings", "show", "sweep", "tokens", "train", "verify"),
}


def train(folder: Path, name: str, **tree: Any) -> str:
    usual = {"train": {"steps": 4, "evaluate": 0, "save": 4}, "device": "cpu", "out": str(folder / name)}
    (folder / f"{name}.yaml").write_text(json.dumps({**usual, **tree}))
    regard.fit(folder / f"{name}.yaml")
    return str(folder / name)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("precision")
    tree: dict[str, Any] = {
        "task": "translation",
        "corpus": {"kind": "copy", "sizes": [1, 6], "train": 400, "validation": 20, "test": 20},
        "tokenizer": {"pieces": "given"},
        "model": {"kind": "transformer-tiny", "width": 128, "depth": 1, "heads": 4},
        "batches": {"tokens": 400},
    }
    return train(folder, "run", **tree)


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Runs that read lines: one writes, one makes vectors."""
    folder = tmp_path_factory.mktemp("readers")
    (folder / "lines.txt").write_text("\n".join(LINES * 8) + "\n")
    shared: dict[str, Any] = {"tokenizer": {"pieces": "bpe", "vocabulary": 60}, "batches": {"tokens": 256}}
    lines = {"kind": "files", "train": {"kind": "documents", "path": str(folder / "lines.txt"), "unit": "line"}}
    sizes = {"width": 128, "depth": 1, "heads": 2}
    task, model = {"kind": "language", "context": 16}, {"kind": "decoder-tiny", **sizes}
    found = {"lines": str(folder / "lines.txt")}
    found["writer"] = train(folder, "writer", task=task, corpus=lines, model=model, **shared)
    pairs = {"kind": "en-fr", "train": 80, "validation": 12, "test": 12, "level": "first"}
    model = {"kind": "bert-tiny", **sizes}
    found["embedder"] = train(folder, "embedder", task="embedding", corpus=pairs, model=model, **shared)
    return found


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
    assert {"conditions", "precision", "milliseconds"} == kept.keys()
    assert set(kept["milliseconds"]) >= {"fp32", "int8"} and all(value > 0 for value in kept["milliseconds"].values())
    packed = any(isinstance(part, PackedDense | PackedLookup) for part in first.modules())
    assert packed == (kept["precision"] != "fp32")
    # what is kept is used, and not measured again
    wish = {**kept, "precision": "int4", "milliseconds": {"int4": 1.0}}
    (Path(run) / CHOICE).write_text(json.dumps(wish))
    with pytest.warns(RegardWarning, match="precision int4: .* take int4 1 ms"):
        load_bundle(run, precision="auto")
    for damage in ("", "[]", json.dumps({**kept, "conditions": {}}), json.dumps({**kept, "precision": "int3"})):
        (Path(run) / CHOICE).write_text(damage)
        assert recall_choice(run, load_bundle(run).model) is None


@pytest.mark.parametrize("name", ["machine", "torch", "instructions", "kernels", "threads", "sizes"])
def test_a_choice_holds_as_long_as_nothing_changes_that_it_depends_on(run: str, name: str) -> None:
    model = load_bundle(run).model
    conditions = describe_conditions(model)
    kept = {"precision": "int8", "milliseconds": {"int8": 1.0}}
    (Path(run) / CHOICE).write_text(json.dumps({"conditions": conditions, **kept}))
    assert recall_choice(run, model) == PrecisionChoice("int8", {"int8": 1.0})
    (Path(run) / CHOICE).write_text(json.dumps({"conditions": {**conditions, name: "another"}, **kept}))
    assert recall_choice(run, model) is None


def test_fewer_threads_are_another_condition() -> None:
    model, before = preset("gpt2", width=128, depth=1, vocabulary=400).build(), torch.get_num_threads()
    first = describe_conditions(model)
    try:
        torch.set_num_threads(before + 1)
        assert describe_conditions(model) != first
    finally:
        torch.set_num_threads(before)


def test_fp32_is_kept_unless_another_is_clearly_faster() -> None:
    times = {"fp32": 1.0, "fp16": 0.95, "bf16": 2.0, "int8": 0.92}
    assert find_fastest(times) == "fp32"
    assert find_fastest({**times, "int8": 0.5}) == "int8"
    assert find_fastest({"fp32": 1.0}) == "fp32"  # where no other kernel is to be had


@pytest.mark.parametrize("there", [False, True])
def test_bf16_is_tried_where_the_processor_has_it(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or where our kernel multiplies it: torch emulates it elsewhere."""
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: there)
    monkeypatch.setattr("regard.core.product.load", lambda: None)
    found = choose_precision(preset("gpt2", width=128, depth=1, vocabulary=400).build())
    assert set(found.milliseconds) == {"fp32", "fp16", "int8"} | ({"bf16"} if there else set())
    assert all(0 < value < float("inf") for value in found.milliseconds.values())


def test_what_takes_too_long_or_cannot_say_a_weight_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    model = preset("gpt2", width=128, depth=1, vocabulary=400).build()
    with torch.no_grad():
        list_matrices(model)[-1][0, 0] = 1e6
    found = choose_precision(model).milliseconds
    assert "fp16" not in found and "int8" in found
    monkeypatch.setattr(measurement, "LONGEST", 0.0)
    assert choose_precision(model).milliseconds.keys() == {"fp32"}


def test_a_choice_leaves_the_model_as_it_was() -> None:
    model = preset("gpt2", width=128, depth=1, vocabulary=400).build()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    choose_precision(model)
    assert all(weight.equal(before[name]) for name, weight in model.state_dict().items())
    assert all(weight.requires_grad for weight in model.parameters())


def test_large_matrices_are_cut_and_of_many_some_of_each_size_are_measured() -> None:
    table = torch.empty(1).expand(50_000, 768)  # no memory behind it
    pieces = cut_matrix(table)
    assert sum(len(piece) for piece in pieces) == 50_000 and all(piece.numel() <= PIECE for piece in pieces)
    assert [piece.shape for piece in cut_matrix(torch.empty(30, 20))] == [(30, 20)]
    few = [torch.empty(1).expand(300, 200), torch.empty(1).expand(200, 300)] * 3
    assert draw_sample(few) == few
    layers = [torch.empty(1).expand(*size) for _ in range(100) for size in ((2304, 768), (768, 768), (768, 3072))]
    found = draw_sample([*layers, *pieces])
    sizes = {tuple(piece.shape) for piece in found}
    assert sizes == {tuple(piece.shape) for piece in (*layers, *pieces)}
    # no more than one of each size above what is allowed
    assert SAMPLE / 2 < sum(piece.numel() for piece in found) <= SAMPLE + len(sizes) * PIECE


def test_tables_that_are_only_looked_up_are_not_measured() -> None:
    tied = preset("gpt2", width=128, depth=1, vocabulary=400).build()
    shapes = [tuple(matrix.shape) for matrix in list_multiplied(tied)]
    assert (400, 128) in shapes and (1024, 128) not in shapes  # words are scored by the head, positions aren't
    assert len(list_multiplied(tied)) == len(list_matrices(tied)) - 1


def test_a_model_of_which_little_can_be_packed_is_told() -> None:
    with pytest.warns(RegardWarning, match="precision int8: 0% of the weights are packed"):
        use_precision(preset("lstm", width=16, depth=1, vocabulary=40).build(), "int8", "run")


def test_a_choice_tells_why() -> None:
    told = str(PrecisionChoice("int8", {"fp32": 12.34, "int8": 3.1}))
    assert told == "precision int8: all matrices on 8 rows take fp32 12 ms, int8 3.1 ms"
    assert "fp32 123 ms" in str(PrecisionChoice("fp32", {"fp32": 123.4}))
    nothing = choose_precision(preset("lstm", width=16, depth=1, vocabulary=40).build())
    assert str(nothing) == "precision fp32: nothing in this model would be packed"


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


def test_an_evaluation_records_what_was_chosen(run: str, tmp_path: Path) -> None:
    chosen = {"conditions": describe_conditions(load_bundle(run).model), "precision": "int8", "milliseconds": {}}
    (Path(run) / CHOICE).write_text(json.dumps(chosen))
    page = tmp_path / "results.md"
    done = run_here("eval", run, "--precision", "auto", "--record", str(page), "--json")
    assert done.returncode == 0, done.stderr
    assert "(run, int8)" in page.read_text() and "--precision int8 --beam" in page.read_text()
    assert json.loads((Path(run) / "evaluations.jsonl").read_text().splitlines()[-1])["precision"] == "int8"
    (found,) = told(run_here("report", run, "--json", "--no-model"))
    assert found["runs"][0]["tests"][-1]["precision"] == "int8"
    assert "test, int8" in collect_report([run], model=False).page()


@pytest.mark.long
def test_fewer_bits_cost_no_more_perplexity_than_promised(tmp_path: Path) -> None:
    """Of a model that has learned for some seconds; `bench/precision.py` holds runs on real texts to the same."""
    tree: dict[str, Any] = {
        "task": "translation",
        "corpus": {"kind": "en-fr", "train": 2000, "validation": 20, "test": 200, "combinations": 0},
        "model": {"kind": "transformer-tiny", "width": 128, "depth": 2, "heads": 4, "hidden": 128},
        "batches": {"tokens": 1024},
        "train": {"steps": 200, "evaluate": 0, "optimizer": {"rate": 0.004}},
    }
    learned = train(tmp_path, "learned", **tree)

    def measure(precision: str) -> float:
        return float(evaluate([learned], TestSet(), {"beam": 1}, precision=precision).measures["perplexity"])

    whole = measure("fp32")
    assert whole < 100  # of 8,000 tokens at first
    for precision, share in SHARES.items():
        assert 0 < abs(measure(precision) / whole - 1) <= PROMISED["perplexity"] * share, precision


def test_python_tells_the_precision_and_models_of_an_ensemble_may_differ(run: str) -> None:
    packed = regard.load(run, kind=regard.Translator, precision="int8")
    both = ensemble([packed, regard.load(run, kind=regard.Translator)])
    assert find_precision(Model.load(run, precision="int8")) == "int8"
    assert packed.precision == "int8" and both.precision == "int8 + fp32"
    found = [spell_precision(name) for name in ("fp32", "int8", "int8 + fp32")]
    assert found == ["", " --precision int8", " --precision auto"]


def test_every_verb_that_uses_a_model_takes_a_precision() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    taking = {
        name for name, verb in group.commands.items() if any("--precision" in option.opts for option in verb.params)
    }
    assert group.commands.keys() - taking == WITHOUT


def test_words_are_aligned_in_a_precision_which_is_recorded(run: str, tmp_path: Path) -> None:
    assert align(run).weights == ["fp32"]
    gold, page = tmp_path / "gold", tmp_path / "results.md"
    gold.write_text("0-0\n" * 20)
    words = ["--split", "test", "--gold", str(gold), "--record", str(page), "--table", "--json"]
    (found,) = told(run_here("align", run, "--reverse", run, "--precision", "int8", *words))
    assert found["weights"] == ["int8", "int8"] and 0 <= found["precision"] <= 1  # of the links
    assert "grow-diag, int8" in page.read_text() and "--precision int8`" in page.read_text()


def test_runs_are_compared_and_reported_in_a_precision(run: str, tmp_path: Path) -> None:
    other = str(shutil.copytree(run, tmp_path / "other"))
    found = compare([run, other], precision="int8")
    assert found.precisions == ["int8", "int8"] and "run int8, other int8" in " ".join(found.notes)
    (plain,) = told(run_here("compare", run, other, "--json"))
    (packed,) = told(run_here("compare", run, other, "--json", "--precision", "int4"))
    assert [one["precision"] for one in plain["runs"]] == ["fp32"] * 2 and not any(
        "packed" in n for n in plain["notes"]
    )
    assert [one["precision"] for one in packed["runs"]] == ["int4"] * 2
    refused = run_here("compare", "--recipes", "a.yaml", "b.yaml", "--budget", "tokens=2M", "--precision", "int8")
    assert refused.returncode == SpecError.status and "--precision" in refused.stderr
    (report,) = told(run_here("report", run, "--json", "--samples", "1", "--precision", "int8"))
    assert report["runs"][0]["asked"]["precision"] == "int8"
    assert "it was asked in int8" in report["runs"][0]["asked"]["notes"]
    for words in (["--precision", "int9"], ["--precision", "int8", "--no-model"]):
        refused = run_here("report", run, "--json", *words)
        assert refused.returncode == SpecError.status and words[1] in refused.stderr


def test_preferences_are_drawn_in_a_precision(readers: dict[str, str], tmp_path: Path) -> None:
    how = PairDrawing(pairs=1, most=4, prefix=(1, 3))
    found = draw_preferences(readers["writer"], "manners", [readers["lines"]], how, precision="int8")
    assert found.precision == "int8" and found.prompts
    words = ["--reward", "manners", "--data", readers["lines"], "--prefix", "1-3", "--most", "4", "--json"]
    done = run_here("prefer", readers["writer"], *words, "--precision", "int4", "--out", str(tmp_path / "pairs.jsonl"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["precision"] == "int4"


def test_an_index_is_searched_in_the_precision_that_it_was_made_in(readers: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(LINES))
    run, index = readers["embedder"], tmp_path / "index"
    made = run_here("embed", run, "--file", str(tmp_path / "lines.txt"), "--index", str(index), "--precision", "int4")
    assert made.returncode == 0, made.stderr
    about = json.loads((index / "index.json").read_text())
    assert about["precision"] == "int4"
    search = ["search", str(index), LINES[0], "--best", "1", "--json"]
    (same,) = told(run_here(*search))
    assert same["text"] == LINES[0] and same["cosine"] == pytest.approx(1.0, abs=1e-5)
    (other,) = told(run_here(*search, "--precision", "fp32"))
    assert other["cosine"] < same["cosine"]
    # an index of an earlier version says nothing of it, and its model is read as it is kept
    (index / "index.json").write_text(json.dumps({"model": about["model"]}))
    (earlier,) = told(run_here(*search))
    assert earlier["cosine"] == other["cosine"]
    (index / "index.json").write_text(json.dumps({**about, "precision": "int3"}))
    assert "damaged" in run_here(*search).stderr
    (line,) = told(
        run_here("search", str(tmp_path / "lines.txt"), LINES[0], "--model", run, *search[3:], "--precision", "int8")
    )
    assert line["text"] == LINES[0]


def test_a_choice_is_deleted_with_its_run(run: str) -> None:
    (Path(run) / CHOICE).write_text("{}")
    assert remove_run(Path(run)).left == [] and not Path(run).exists()
