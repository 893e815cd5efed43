"""Tables of every kind give the same samples, by name or number; what is bad is located, what is odd is asked about."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.data.log import Log, Policy
from regard.data.reader import ReaderSpec
from regard.data.sample import Sample
from regard.errors import DataError, Doubt, RegardError, SpecError

ROWS: list[dict[str, Any]] = [
    {"id": 1, "review": "fine, and short", "stars": 5, "tr": {"en": "cat", "fr": "chat"}},
    {"id": 2, "review": 'he said "no"\nand left', "stars": 1, "tr": {"en": "dog", "fr": "chien"}},
    {"id": 3, "review": "été", "stars": 5, "tr": {"en": "cow", "fr": "vache"}},
]
FLAT = [{name: value for name, value in row.items() if name != "tr"} for row in ROWS]


def read(form: str, policy: Policy = "stop", log: Log | None = None, **spec: Any) -> list[Sample]:
    return list(ReaderSpec.parse(spec).read(form, log or Log(policy)))


def write_csv(path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(FLAT[0]))
        table.writeheader()
        table.writerows(FLAT)


def write_jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS), encoding="utf-8")


def write_json(path: Path) -> None:
    path.write_text(json.dumps(ROWS, indent=1), encoding="utf-8")


def write_parquet(path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(ROWS), path, row_group_size=2)


def write_arrow(path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pylist(ROWS)
    with pyarrow.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table, max_chunksize=2)


def write_feather(path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pylist(ROWS)
    with pyarrow.ipc.new_file(path, table.schema) as file:
        file.write_table(table, max_chunksize=2)


WRITERS: dict[str, Callable[[Path], None]] = {
    "csv": write_csv,
    "jsonl": write_jsonl,
    "json": write_json,
    "parquet": write_parquet,
    "arrow": write_arrow,
    "feather": write_feather,
}


@pytest.mark.parametrize("ending", WRITERS)
def test_every_kind_of_table_gives_the_same_samples_by_name(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    WRITERS[ending](path)
    texts = [row["review"] for row in ROWS]
    labels = read("labels", path=str(path), text="review", label="stars")  # the ending tells the kind
    assert [(sample["text"], sample["label"]) for sample in labels] == list(zip(texts, ("5", "1", "5"), strict=True))
    assert [sample["text"] for sample in read("documents", path=str(path), text="review")] == texts
    header: dict[str, Any] = {"header": True} if ending == "csv" else {}
    numbered = read("labels", path=str(path), text=1, label=2, **header)
    assert numbered == labels


@pytest.mark.parametrize("ending", [ending for ending in WRITERS if ending != "csv"])
def test_a_name_with_a_dot_reaches_into_a_cell(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    WRITERS[ending](path)
    found = read("pairs", path=str(path), source="tr.en", target="tr.fr")
    assert [(one["source"], one["target"]) for one in found] == [("cat", "chat"), ("dog", "chien"), ("cow", "vache")]


@pytest.mark.parametrize("ending", WRITERS)
def test_a_row_without_a_value_is_located_in_every_kind(tmp_path: Path, ending: str) -> None:
    path, log = tmp_path / f"a.{ending}", Log("skip", tmp_path / "report.txt")
    saved = ROWS[1]["review"], FLAT[1]["review"]
    try:
        ROWS[1]["review"] = FLAT[1]["review"] = None
        WRITERS[ending](path)
    finally:
        ROWS[1]["review"], FLAT[1]["review"] = saved
    found = read("labels", log=log, path=str(path), text="review", label="stars")
    log.close()
    assert len(found) == 2
    assert (log.kept, log.skipped) == (2, 1)
    line = {"csv": 3, "json": 11}.get(ending, 2)  # of the file, or the row where there are no lines
    reason = "empty: text" if ending == "csv" else "no text: 'review'"
    assert f"{path}:{line}: {reason}" in (tmp_path / "report.txt").read_text()


@pytest.mark.parametrize("ending", WRITERS)
def test_wrong_names_of_fields_are_told_with_those_that_are_there(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    WRITERS[ending](path)
    with pytest.raises(Doubt, match=r"fields here: id, review, stars.*; looked for: revew") as error:
        read("labels", path=str(path), text="revew", label="stars")
    assert error.value.hint == "text: review, label: stars"
    (way,) = error.value.ways.values()
    assert len(read("labels", path=str(path), **way)) == 3


def test_fields_of_another_form_are_refused_and_those_of_a_form_told(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl")
    reader = ReaderSpec.parse({"path": str(tmp_path / "a.jsonl"), "text": "review"})
    assert reader.forms() == ("documents", "labels")
    with pytest.raises(SpecError, match="source, text: no sample has these together"):
        ReaderSpec.parse({"path": "a.jsonl", "text": "review", "source": "id"})
    with pytest.raises(Doubt) as error:
        read("pairs", path=str(tmp_path / "a.jsonl"))
    assert error.value.hint == "source: tr.en, target: tr.fr"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", "~"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_csv_is_read_as_the_standard_library_writes_it(
    tmp_path: Path, delimiter: str, quoting: Any, newline: str
) -> None:
    texts = ['a "b" c', "one\ntwo\n\nthree", "x,y;z|w\tv~", '"', '""', "plain", '",\n",', "last"]
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=newline).writerows(
            (text, f"label {n % 2}") for n, text in enumerate(texts)
        )
    told: dict[str, Any] = {"delimiter": delimiter} if delimiter == "~" else {}
    found = read("labels", kind="csv", path=str(tmp_path / "a.csv"), header=False, **told)
    assert [sample["text"] for sample in found] == texts


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ('"never ends,x', "2: a quote that never ends"),
        ('"closed" too early,x', "2: text after a closing quote"),
        ("a,b,c", "2: columns: 3, and the first row has 2"),
        ("alone", "2: columns: 1, and the first row has 2"),
        ("", "2: empty line"),
        ("caf\udce9,x", "2: bad UTF-8"),
    ],
)
def test_a_bad_row_of_csv_is_left_out_alone(tmp_path: Path, damage: str, reason: str) -> None:
    path, log = tmp_path / "a.csv", Log("skip", tmp_path / "report.txt")
    content = f"one,x\n{damage}\ntwo,x\nthree,y\n"
    path.write_bytes(content.encode(errors="surrogateescape"))
    found = read("labels", log=log, kind="csv", path=str(path), header=False)
    log.close()
    assert [sample["text"] for sample in found] == ["one", "two", "three"]
    assert (log.kept, log.skipped) == (3, 1)
    assert f"{path}:{reason}" in (tmp_path / "report.txt").read_text()
    with pytest.raises(DataError, match=f"{path}:{reason}"):
        read("labels", kind="csv", path=str(path), header=False)


def test_a_quote_that_never_ends_takes_no_memory_and_no_time(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('"' + "text,label\n" * 30_000)
    tracemalloc.start()
    log = Log("skip")
    assert len(read("labels", log=log, kind="csv", path=str(path), header=False, longest=10_000)) == 29_999
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert log.skipped == 1
    assert most < 30_000_000


def test_quotes_are_letters_where_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('5" pipe,x\n"half,y\n')
    found = read("labels", kind="csv", path=str(tmp_path / "a.csv"), quote="", header=False)
    assert [sample["text"] for sample in found] == ['5" pipe', '"half']


@pytest.mark.parametrize("wrong", [{"delimiter": ""}, {"delimiter": "ab"}, {"quote": ","}, {"delimiter": "\n"}])
def test_a_delimiter_is_one_sign(wrong: dict[str, str]) -> None:
    with pytest.raises(SpecError, match=r"one sign|both are"):
        ReaderSpec.parse({"kind": "csv", "path": "a.csv", "delimiter": ",", **wrong})


@pytest.mark.parametrize(("content", "kind"), [("cat,chat\ndog,chien\n", "csv"), ("cat;chat\ndog;chien\n", "csv")])
def test_a_table_that_tabs_dont_divide_is_asked_about(tmp_path: Path, content: str, kind: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(content)
    with pytest.raises(Doubt, match=r"a.tsv:1: no tab, but 1 (comma|semicolon) a line") as error:
        read("pairs", policy="skip", kind="tsv", path=str(path))
    (way,) = error.value.ways.values()
    assert way["kind"] == kind
    settled: dict[str, Any] = {"path": str(path), **way}
    assert len(read("pairs", **settled)) == 2


@pytest.mark.parametrize("kind", ["tsv", "csv"])
def test_a_header_names_the_columns(tmp_path: Path, kind: str) -> None:
    path, sign = tmp_path / f"a.{kind}", {"tsv": "\t", "csv": ","}[kind]
    path.write_text("\n".join(sign.join(row) for row in [("nr", "fr", "en"), ("1", "chat", "cat")]) + "\n")
    named: dict[str, Any] = {"kind": kind, "path": str(path), "source": "en", "target": "fr"}
    (found,) = read("pairs", **named)
    assert (found["source"], found["target"], found["place"]) == ("cat", "chat", f"{path}:2")
    with pytest.raises(Doubt, match="'nr' and 'fr' and 'en' look like the names of columns") as error:
        read("pairs", kind=kind, path=str(path))
    assert error.value.ways["leave the line out"] == {"header": True}
    with pytest.raises(SpecError, match="header: false, and en, fr"):
        ReaderSpec.parse({**named, "header": False})
    path.write_text(sign.join(("en", "en")) + "\n")
    with pytest.raises(DataError, match="two columns are called 'en'"):
        read("pairs", **named)


def test_a_header_with_our_own_names_needs_no_more(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,text\ngood,fine film\n")
    (found,) = read("labels", kind="csv", path=str(tmp_path / "a.csv"), header=True)
    assert (found["text"], found["label"]) == ("fine film", "good")


def test_a_list_of_objects_is_read_piece_by_piece(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        path = tmp_path / f"{count}.json"
        path.write_text(json.dumps([{"text": f"text {n} " + "x" * (n % 300)} for n in range(count)], indent=1))
        tracemalloc.start()
        texts = ReaderSpec.parse({"path": str(path)}).read("documents", Log("stop"))
        assert all(sample["text"].startswith(f"text {n} ") for n, sample in enumerate(texts))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(20_000) < peak(2_000) + 200_000


@pytest.mark.parametrize(
    ("content", "kept", "reason"),
    [
        ('[{"text": "a"}, {"text": "b"', 1, "damaged JSON"),
        ('[{"text": "a"} {"text": "b"}]', 1, "damaged JSON"),
        ('[{"text": "a"}, 12, {"text": "b"}]', 2, "not an object"),
        ('{"text": "a"}\n{"text": 1}\n', 1, "no text"),
        ('"text"', 0, "not an object"),
    ],
)
def test_damaged_json_is_told_and_what_came_before_is_kept(
    tmp_path: Path, content: str, kept: int, reason: str
) -> None:
    (tmp_path / "a.json").write_text(content)
    log = Log("skip")
    assert len(read("documents", log=log, path=str(tmp_path / "a.json"))) == kept
    assert log.reasons == {reason: 1}


def test_sentences_with_tags_are_lists_or_words_that_spaces_divide(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"tokens": ["EU", "rejects"], "ner": ["ORG", 0]}\n')
    (found,) = read("tags", path=str(tmp_path / "a.jsonl"), words="tokens", tags="ner")
    assert (found["words"], found["tags"]) == (["EU", "rejects"], ["ORG", "0"])
    (tmp_path / "a.csv").write_text("EU rejects it,ORG O O\nyes,O\nno no,O\n")
    log = Log("skip")
    assert [sample["tags"] for sample in read("tags", log=log, path=str(tmp_path / "a.csv"))] == [
        ["ORG", "O", "O"],
        ["O"],
    ]
    assert log.reasons == {"words and tags aren't equally long": 1}
    (tmp_path / "b.csv").write_text("EU,ORG\nrejects,O\nit,O\n")
    with pytest.raises(Doubt, match="one word a row"):
        read("tags", path=str(tmp_path / "b.csv"))


@pytest.mark.parametrize(("value", "label"), [(True, "true"), (4.0, "4"), (4.5, "4.5"), (7, "7"), ("x", "x")])
def test_a_label_may_be_a_number(tmp_path: Path, value: Any, label: str) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a", "label": value}) + "\n")
    assert read("labels", path=str(tmp_path / "a.jsonl"))[0]["label"] == label


def test_a_parquet_of_many_groups_is_read_in_the_memory_of_one(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    schema = pyarrow.schema([("text", pyarrow.string()), ("image", pyarrow.binary())])
    with parquet.ParquetWriter(path, schema) as writer:
        for group in range(40):
            texts = [f"{group} " + "x" * 1000] * 1000
            writer.write_table(pyarrow.table({"text": texts, "image": [b"\xff"] * 1000}, schema=schema))
    before = pyarrow.total_allocated_bytes()
    tracemalloc.start()
    peak = 0
    for number, sample in enumerate(ReaderSpec.parse({"path": str(path)}).read("documents", Log("stop"))):
        peak = max(peak, pyarrow.total_allocated_bytes() - before) if number % 1000 == 0 else peak
        assert "image" not in sample
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert number == 39_999
    assert max(peak, most) < 12_000_000  # of 40 megabytes


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_file_that_is_cut_short_is_refused_or_told(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    WRITERS[ending](path)
    path.write_bytes(path.read_bytes()[:-40])
    log = Log("skip")
    with pytest.raises(DataError, match=r"it can't be opened|damaged file"):
        read("documents", path=str(path), text="review")
    if ending == "arrow":
        read("documents", log=log, path=str(path), text="review")
        assert log.reasons == {"damaged file": 1}


def test_what_pyarrow_reads_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(RegardError, match="needs the package pyarrow") as error:
        read("documents", path=str(tmp_path / "a.parquet"))
    assert "regard[data]" in error.value.hint


def test_the_names_of_classes_stand_for_their_numbers(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    features = {
        "label": {"names": ["bad", "good"], "_type": "ClassLabel"},
        "tags": {"feature": {"names": ["O", "ORG"], "_type": "ClassLabel"}, "_type": "Sequence"},
    }
    rows = [
        {"text": "a", "label": 1, "words": ["EU", "x"], "tags": [1, 0]},
        {"text": "b", "label": -1, "words": ["y"], "tags": [0]},
    ]
    table = pyarrow.Table.from_pylist(rows).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    log = Log("skip")
    assert [one["label"] for one in read("labels", log=log, path=str(tmp_path / "a.parquet"))] == ["good"]
    assert log.reasons == {"no text": 1}  # -1 is how they say that nobody labelled it
    assert [one["tags"] for one in read("tags", path=str(tmp_path / "a.parquet"))] == [["ORG", "O"], ["O"]]


def test_standard_input_is_a_table_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"text,label\nfine,good\n")

    monkeypatch.setattr("sys.stdin", Stdin())
    (found,) = read("labels", kind="csv", path="-", header=True)
    assert (found["text"], found["place"]) == ("fine", "-:2")
