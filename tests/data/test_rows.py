"""Rows from Python and folders of data sets: known by what they can do or hold, with no library imported for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import regard
from regard.data.corpus import CorpusSpec
from regard.data.given import hand_in
from regard.data.log import Log
from regard.data.reader import ReaderSpec
from regard.data.sample import Sample
from regard.data.table import TASKS
from regard.errors import DataError, Doubt, InputError, SpecError
from regard.runs.evaluate import TestSet, evaluate
from regard.runs.folder import Run
from regard.runs.train import resume
from regard.tasks.task import TaskSpec
from tests.cli.test_cli import regard as command

MODULE = __name__.partition(".")[0]
ROWS: list[dict[str, Any]] = [{"body": f"a {'fine' if n % 2 else 'dull'} film {n}", "stars": n % 2} for n in range(200)]


class Pandas:
    """A frame as pandas has it: tuples of cells, numbers of numpy."""

    columns = ("body", "stars")

    def __len__(self) -> int:
        return len(ROWS)

    def itertuples(self, index: bool = True, name: str | None = "Pandas") -> Iterator[tuple[Any, ...]]:
        assert not index and name is None
        return ((row["body"], np.int64(int(row["stars"]))) for row in ROWS)


class Polars:
    """A frame as polars has it."""

    columns = ("body", "stars")

    def iter_rows(self, *, named: bool = False) -> Iterator[dict[str, Any]]:
        assert named
        return iter(ROWS)


class ClassLabel:
    names = ("bad", "good")


class HuggingFace:
    """A data set as `datasets` has it, with names for its classes."""

    column_names = ("body", "stars")
    features = {"body": object(), "stars": ClassLabel()}  # noqa: RUF012

    def __len__(self) -> int:
        return len(ROWS)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(ROWS)


def read(rows: Any, **settings: Any) -> list[Sample]:
    reader = ReaderSpec.parse({"kind": "rows", "rows": rows, "text": "body", "label": "stars", **settings})
    return list(reader.read("labels", Log("stop")))


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (ROWS, "list, 200 rows: body, stars"),
        (tuple(ROWS), "tuple, 200 rows: body, stars"),
        (Pandas(), f"{MODULE}.Pandas, 200 rows: body, stars"),
        (Polars(), f"{MODULE}.Polars: body, stars"),
        (HuggingFace(), f"{MODULE}.HuggingFace, 200 rows: body, stars"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rows_are_read_whatever_holds_them_and_the_run_file_says_what(rows: Any, what: str) -> None:
    found = read(rows)
    names = ("bad", "good") if isinstance(rows, HuggingFace) else ("0", "1")
    assert [(one["text"], one["label"]) for one in found] == [(row["body"], names[int(row["stars"])]) for row in ROWS]
    reader = ReaderSpec.parse(rows)  # where a reader belongs, rows will do
    assert json.loads(reader.model_dump_json())["rows"] == what
    with pytest.raises(DataError, match="handed in from Python") as error:
        list(ReaderSpec.parse(json.loads(reader.model_dump_json())).read("labels", Log("stop")))
    assert "data=ROWS" in error.value.hint


def test_a_generator_is_read_once_and_splits_are_made_of_it() -> None:
    corpus = CorpusSpec.parse({"train": {"kind": "rows", "rows": iter(ROWS), "text": "body", "label": "stars"}})
    dealt = list(corpus.deal("labels", Path(), Log("stop")))
    assert len(dealt) == 200 and {split for split, _ in dealt} == {"train", "validation"}


def test_a_table_of_arrow_is_rows_too() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    assert len(read(pyarrow.Table.from_pylist(ROWS))) == 200


@pytest.mark.parametrize("rows", [5, b"text", object()])
def test_what_isnt_rows_is_refused_by_its_type(rows: Any) -> None:
    with pytest.raises(SpecError, match=f"is of type {type(rows).__name__}"):
        ReaderSpec.parse({"kind": "rows", "rows": rows})


def test_a_row_is_a_dict_and_its_fields_are_told() -> None:
    with pytest.raises(DataError, match="rows:1: a row is a dict of cells, and 'text' isn't"):
        read([["text"], ["other"]][0])
    with pytest.raises(Doubt, match=r"rows: fields here: body, stars; looked for: text, label") as error:
        list(ReaderSpec.parse(ROWS).read("labels", Log("stop")))
    assert error.value.hint == "text: body, label: stars"


def test_what_is_handed_in_takes_the_place_of_files_and_keeps_the_columns() -> None:
    tree = {"corpus": {"train": {"path": "a.csv", "text": "body"}, "split": {"test": 0.1}}}
    handed = hand_in(tree, {"train": ROWS, "test": ROWS[:5]})["corpus"]
    assert handed["split"] == {"test": 0.1}
    for split, rows in (("train", ROWS), ("test", ROWS[:5])):
        assert handed[split] == {"kind": "rows", "rows": rows, "text": "body"}
    assert hand_in({"corpus": "en-fr"}, ROWS)["corpus"] == {"kind": "files", "train": {"kind": "rows", "rows": ROWS}}
    with pytest.raises(InputError, match="no split is called 'dev'"):
        hand_in({}, {"train": ROWS, "dev": ROWS})


def test_paths_are_files_and_columns_are_rows() -> None:
    assert hand_in({}, "a.csv")["corpus"]["train"] == {"path": "a.csv"}
    assert hand_in({}, [Path("a.en"), "a.fr"])["corpus"]["train"] == {"path": ["a.en", "a.fr"]}
    assert hand_in({}, {"train": "a.csv", "test": ROWS})["corpus"]["train"] == {"path": "a.csv"}
    turned = [{"text": "good", "label": 1}, {"text": "bad", "label": 0}]
    for data in ({"text": ["good", "bad"], "label": [1, 0]}, {"train": {"text": ["good", "bad"], "label": (1, 0)}}):
        assert hand_in({}, data)["corpus"]["train"] == {"kind": "rows", "rows": turned}
    with pytest.raises(InputError, match="equally long: text 2, label 1"):
        hand_in({}, {"text": ["good", "bad"], "label": [1]})
    with pytest.raises(InputError, match="no split is called 'dev'"):
        hand_in({}, {"dev": ROWS})


def test_a_path_is_meant_from_here_whatever_folder_the_run_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("")
    assert hand_in({"data": "elsewhere"}, "a.csv")["corpus"]["train"] == {"path": str(tmp_path / "a.csv")}


@pytest.mark.parametrize("data", [[], (), {}, {"train": []}, {"text": [], "label": []}])
def test_no_rows_are_told(data: Any) -> None:
    with pytest.raises(InputError, match="there are no rows"):
        hand_in({}, data)


def test_a_hint_shows_rows_with_all_fields_of_their_form() -> None:
    for form, wanted in (("labels", '[{"text": "…", "label": "…"}, …]'), ("tags", '[{"words": […], "tags": […]}, …]')):
        with pytest.raises(DataError) as error:
            list(ReaderSpec.parse([("good", "yes")]).read(form, Log("stop")))
        assert error.value.hint == wanted


def test_fields_of_another_task_name_it() -> None:
    with pytest.raises(Doubt, match="looked for: source, target") as error:
        list(ReaderSpec.parse([{"text": "good", "label": "yes"}]).read("pairs", Log("stop")))
    assert error.value.hint.startswith("task: classification,")
    for form, task in TASKS.items():
        assert TaskSpec.parse(task).form == form


TREE = {
    "task": "classification",
    "corpus": {"train": {"text": "body", "label": "stars"}, "split": {"test": 0.1}},
    "model": {"kind": "bert-tiny", "width": 16, "depth": 1, "heads": 2, "context": 64, "dropout": 0.0},
    "tokenizer": {"vocabulary": 200},
    "train": {"steps": 4, "evaluate": 2, "save": 2},
    "device": "cpu",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on rows that nobody has any more."""
    folder = tmp_path_factory.mktemp("rows") / "run"
    regard.fit({**TREE, "out": str(folder)}, {"train.steps": 3}, data=iter(ROWS))
    return folder


def test_a_run_on_rows_says_what_they_were_and_goes_on_without_them(trained: Path) -> None:
    written = yaml.safe_load((trained / "run.yaml").read_text())
    assert written["corpus"]["train"]["rows"] == "list_iterator"
    done = resume(trained, ["train.steps=4"])
    assert done.report.moment.step == 4
    assert done.model().classify("a dull film").label in ("0", "1")
    with pytest.raises(DataError, match="handed in from Python"):
        regard.fit(trained / "run.yaml", {"out": str(trained.parent / "again")})
    assert not (trained.parent / "again").exists()


def test_the_part_that_a_run_kept_is_measured_by_its_name(trained: Path) -> None:
    kept = Run.open(trained).prepared()
    for split in ("validation", "test"):
        found = evaluate([str(trained)], TestSet(split=split), {})
        assert found.measures["count"] == len(kept.samples(split))
    done = command("eval", str(trained), "--split", "validation", "--json")
    assert json.loads(done.stdout)["count"] == len(kept.samples("validation"))
    for words, message in (
        (["--split", "tset"], "did you mean 'test'?"),
        (["--split", "train"], "no part that a run keeps"),
        (["--split", "combinations"], "there are: validation, test"),
        (["--split", "test", "--data", "a.csv"], "which?"),
    ):
        done = command("eval", str(trained), *words)
        assert done.returncode == 3 and message in done.stderr, done.stderr


def test_a_test_set_has_columns_of_its_own_or_those_of_the_run(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("nr,body,stars\n1,a fine film,1\n")
    (tmp_path / "b.csv").write_text("nr,avis,note\n1,a fine film,1\n2,a dull film,0\n")
    (found,) = (evaluate([str(trained)], TestSet([str(tmp_path / "a.csv")]), {}).measures,)
    assert found["count"] == 1
    told = f"{{path: {tmp_path / 'b.csv'}, text: avis, label: note}}"
    assert evaluate([str(trained)], TestSet([told]), {}).measures["count"] == 2


def test_no_library_of_frames_is_imported_for_it() -> None:
    names = ("pandas", "polars", "datasets", "pyarrow")
    code = f"import regard.data.readers.rows, sys; print([name for name in {names} if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def save(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """A data set as `save_to_disk` leaves it."""
    pyarrow = pytest.importorskip("pyarrow")
    folder.mkdir(parents=True)
    table = pyarrow.Table.from_pylist(list(rows))
    names = []
    for number, begin in enumerate(range(0, len(rows), 150)):
        names.append(f"data-{number:05}-of-00002.arrow")
        with pyarrow.ipc.new_stream(folder / names[-1], table.schema) as stream:
            stream.write_table(table.slice(begin, 150))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    features = {"stars": {"names": ["bad", "good"], "_type": "ClassLabel"}}
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))


def deal(folder: Path, **corpus: Any) -> dict[str, list[str]]:
    spec = CorpusSpec.parse({"train": {"path": "data", "text": "body", "label": "stars"}, **corpus})
    found: dict[str, list[str]] = {}
    for split, sample in spec.deal("labels", folder, Log("stop")):
        found.setdefault(split, []).append(sample["label"])
    return found


def test_a_saved_data_set_is_a_folder_to_train_on(tmp_path: Path) -> None:
    save(tmp_path / "data", ROWS)
    found = deal(tmp_path, split={"validation": 0})
    assert found == {"train": [("bad", "good")[int(row["stars"])] for row in ROWS]}


def test_the_splits_of_a_saved_data_set_are_those_of_the_run(tmp_path: Path) -> None:
    save(tmp_path / "data/train", ROWS)
    save(tmp_path / "data/test", ROWS[:7])
    (tmp_path / "data/dataset_dict.json").write_text('{"splits": ["train", "test", "../elsewhere"]}')
    found = deal(tmp_path, split={"validation": 0})
    assert {split: len(labels) for split, labels in found.items()} == {"train": 200, "test": 7}
    own = deal(tmp_path, split={"validation": 0, "test": 0.2})  # who says how much is to be kept back gets that
    assert len(own["train"]) + len(own["test"]) == 200
    with pytest.raises(DataError, match="no split 'validation'; there are: train, test"):
        deal(tmp_path, validation={"kind": "dataset", "path": "data", "text": "body", "label": "stars"})


@pytest.mark.parametrize(
    ("train", "validation"),
    [
        ("data/train-00000-of-00001", "data/validation-00000-of-00001"),
        ("train", "dev"),
        ("train/0000", "valid/0000"),
    ],
)
@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_names_of_files_tell_splits(tmp_path: Path, train: str, validation: str, ending: str) -> None:
    for name, count in ((train, 20), (validation, 5)):
        path = tmp_path / "data" / f"{name}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        cells = [f"{row['body']},{row['stars']}" for row in ROWS[:count]]
        objects = [json.dumps(row) for row in ROWS[:count]]
        path.write_text("\n".join(objects if ending == "jsonl" else ["body,stars", *cells]) + "\n")
    (tmp_path / "data/README.md").write_text("about\n")
    assert {split: len(labels) for split, labels in deal(tmp_path).items()} == {"train": 20, "validation": 5}


def test_the_run_file_says_which_readers_were_meant(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name, rows in (("train", ROWS), ("test", ROWS[:7])):
        (tmp_path / f"data/{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = {"train": {"path": "data", "text": "body", "label": "stars"}}
    out = tmp_path / "run"
    regard.fit({**TREE, "corpus": corpus, "data": str(tmp_path), "train": {"steps": 1}, "out": str(out)})
    written = yaml.safe_load((out / "run.yaml").read_text())["corpus"]
    assert (written["train"]["kind"], written["train"]["split"]) == ("dataset", "train")
    assert (written["test"]["kind"], written["test"]["split"], written["test"]["path"]) == ("dataset", "test", "data")
