"""Where bytes come from: packed files by their content, globs, folders, archives, standard input, other encodings."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.config import Document
from regard.data.log import Log
from regard.data.packing import strip_packing
from regard.data.reader import ReaderSpec
from regard.errors import DataError, RegardError, SpecError


def pack_zstd(content: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    half = len(content) // 2  # two frames, as `cat a.zst b.zst` makes them
    return bytes(zstandard.compress(content[:half]) + zstandard.compress(content[half:]))


def pack_zip(content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside.tsv", content)
    return packed.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": pack_zstd,
    "zip": pack_zip,
}
LINES = b"".join(b"sentence number %d\tphrase %d\n" % (n * n * n, n * 7919) for n in range(20_000))


def texts(form: str = "documents", log: Log | None = None, **spec: Any) -> list[str]:
    field = {"documents": "text", "pairs": "source"}[form]
    return [sample[field] for sample in ReaderSpec.parse(spec).read(form, log or Log("stop"))]


@pytest.mark.parametrize("packing", PACKERS)
def test_a_packed_file_is_known_by_its_content(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "corpus.tsv"  # the name says nothing of it
    path.write_bytes(PACKERS[packing](LINES))
    assert texts("pairs", kind="tsv", path=str(path)) == [f"sentence number {n**3}" for n in range(20_000)]


@pytest.mark.parametrize("packing", ["gzip", "bzip2", "xz", "zstd"])
def test_a_packed_file_that_is_cut_short_is_located_and_what_came_before_is_kept(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "corpus.tsv"
    packed = PACKERS[packing](LINES * 5)
    path.write_bytes(packed[: len(packed) * 9 // 10])
    log = Log("skip")
    found = texts("pairs", log=log, kind="tsv", path=str(path))
    assert 0 < len(found) < 100_000
    assert log.reasons == {f"damaged {packing}": 1}
    with pytest.raises(DataError, match=rf"corpus.tsv:\d+: damaged {packing}"):
        texts("pairs", kind="tsv", path=str(path))


@pytest.mark.parametrize("packing", ["gzip", "bzip2", "xz", "zstd"])
def test_packed_bytes_come_from_standard_input_too(packing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(PACKERS[packing](b"one\tun\n"))

    monkeypatch.setattr("sys.stdin", Stdin())
    assert texts("pairs", kind="tsv", path="-") == ["one"]


def test_zstandard_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    (tmp_path / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd....")
    with pytest.raises(RegardError, match="needs the package zstandard") as error:
        texts(kind="documents", path=str(tmp_path / "a.zst"))
    assert "regard[data]" in error.value.hint


@pytest.mark.parametrize("name", ["a.tsv", "a.TSV.gz", "a.tsv.xz", "a.tsv.bz2", "a.tsv.zst", "a.tsv.zip"])
def test_endings_of_packings_are_no_part_of_a_name(name: str) -> None:
    assert strip_packing(name) == "a.tsv"


@pytest.fixture
def archive(tmp_path: Path) -> str:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name in ("b/two.csv", "a/one.csv", "README.md", "__MACOSX/a/one.csv", "a/.hidden.csv"):
            file.writestr(name, f"text\n{name}\n")
    return str(path)


def test_the_members_of_a_readers_kind_are_read_by_name(archive: str) -> None:
    assert texts(kind="csv", path=archive, text="text") == ["a/one.csv", "b/two.csv"]
    assert texts(path=archive, text="text") == ["a/one.csv", "b/two.csv"]  # what is inside tells the kind
    assert texts(path=f"{archive}:b/two.csv", text="text") == ["b/two.csv"]
    (first, _) = ReaderSpec.parse({"kind": "csv", "path": archive, "text": "text"}).read("documents", Log("stop"))
    assert first["place"] == f"{archive}:a/one.csv:2"
    with pytest.raises(DataError, match=r"no .jsonl or .ndjson in it; there are README.md, a/one.csv, b/two.csv"):
        texts(kind="jsonl", path=archive)
    with pytest.raises(DataError, match=r"c.csv: no such file in the archive; there are: README.md, a/one.csv"):
        texts(kind="csv", path=f"{archive}:c.csv", text="text")


def test_a_damaged_archive_is_one_clear_message(archive: str) -> None:
    Path(archive).write_bytes(Path(archive).read_bytes()[:60])
    with pytest.raises(DataError, match=r"a.zip: damaged zip"):
        texts(kind="csv", path=archive)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("texts/b.txt", "texts/a.txt", "texts/deep/c.txt", "texts/notes.md", "texts/.hidden.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "texts/z.txt.gz").write_bytes(gzip.compress(b"texts/z.txt\n"))
    return tmp_path


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("texts", ["a", "b", "deep/c", "z"]),
        ("texts/*.txt", ["a", "b"]),
        ("texts/**/*.txt", ["a", "b", "deep/c"]),
        (["texts/b.txt", "texts/a.txt"], ["b", "a"]),
        (["texts/b*", "texts/a.txt"], ["b", "a"]),
    ],
)
@pytest.mark.parametrize("kind", [{"kind": "documents"}, {}])
def test_folders_globs_and_lists_of_texts(folder: Path, path: Any, names: list[str], kind: dict[str, str]) -> None:
    reader = ReaderSpec.parse({"path": path, **kind}).settle("documents", "train", folder).under(folder)
    found = [sample["text"] for sample in reader.read("documents", Log("stop"))]
    assert found == [f"texts/{name}.txt\n" for name in names]


def test_nothing_that_matches_is_an_error(folder: Path) -> None:
    with pytest.raises(DataError, match=r"texts/\*.html: no file matches"):
        texts(kind="documents", path=str(folder / "texts/*.html"))
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: no .txt in this folder: it is empty"):
        texts(kind="documents", path=str(folder / "empty"))
    with pytest.raises(DataError, match=r"texts: no .csv in this folder; there are a.txt, b.txt"):
        texts(kind="csv", path=str(folder / "texts"))
    with pytest.raises(DataError, match="nowhere: No such file"):
        texts(path=str(folder / "nowhere"))


def test_a_name_that_looks_like_a_glob_is_a_name_where_there_is_such_a_file(tmp_path: Path) -> None:
    inside = tmp_path / "data [1]"
    inside.mkdir()
    (inside / "a[2].txt").write_text("one\n")
    (inside / "a2.txt").write_text("two\n")
    spec = ReaderSpec.parse({"kind": "documents", "path": "a[2].txt"})
    assert [one["text"] for one in spec.under(inside).read("documents", Log("stop"))] == ["one\n"]
    spec = ReaderSpec.parse({"kind": "documents", "path": "a*.txt"})
    assert [one["text"] for one in spec.under(inside).read("documents", Log("stop"))] == ["two\n", "one\n"]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-32", "utf-8"])
@pytest.mark.parametrize("ending", ["txt", "csv", "jsonl", "json"])
def test_text_is_read_in_the_encoding_that_is_named(tmp_path: Path, encoding: str, ending: str) -> None:
    content = {
        "txt": "l'été\nà la mer\n",
        "csv": "text\nl'été\nà la mer\n",
        "jsonl": '{"text": "l\'été"}\n{"text": "à la mer"}\n',
        "json": '[{"text": "l\'été"}, {"text": "à la mer"}]',
    }[ending]
    path = tmp_path / f"a.{ending}"
    path.write_bytes(content.encode(encoding))
    more: dict[str, Any] = {"kind": "documents", "unit": "line"} if ending == "txt" else {"text": "text"}
    assert texts(path=str(path), encoding=encoding, **more) == ["l'été", "à la mer"]
    if encoding in ("utf-16", "utf-32"):  # a byte order mark tells it as well
        assert texts(path=str(path), **more) == ["l'été", "à la mer"]


@pytest.mark.parametrize("name", ["klingon", "latin-l", "rot13", "cp037", "base64"])
def test_an_unknown_encoding_is_refused_with_those_that_are_known(name: str) -> None:
    with pytest.raises(SpecError, match=r"no encoding that text can be read in.*latin-1"):
        ReaderSpec.parse({"kind": "documents", "path": "a.txt", "encoding": name})


def test_half_a_letter_at_the_end_is_told(tmp_path: Path) -> None:
    path, log = tmp_path / "a.txt", Log("skip")
    path.write_bytes("one\ntwo\n".encode("utf-16")[:-1])
    assert texts(log=log, kind="documents", path=str(path), unit="line") == ["one"]
    assert log.reasons == {"damaged utf-16": 1}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("reviews.csv", "csv"),
        ("reviews.csv.gz", "csv"),
        ({"path": "x.jsonl", "text": "body"}, "jsonl"),
        (["a.json", "b.json"], "json"),
        ("a.conllu", "conllu"),
        ("a.txt", "auto"),  # whether it is running text or a table depends on what is wanted
        ("folder", "auto"),
    ],
)
def test_a_kind_may_be_left_out_where_the_ending_tells_it(given: Any, kind: str) -> None:
    assert ReaderSpec.parse(given).kind == kind


def test_words_change_a_reader_that_is_only_a_name() -> None:
    tree = Document({"train": "a.csv.gz"}).change(["train.header=true"]).tree["train"]
    assert ReaderSpec.parse(tree) == ReaderSpec.parse({"kind": "csv", "path": "a.csv.gz", "header": True})
    tree = Document({"train": "texts/*.txt"}).change(["train.encoding=latin-1", "train.unit=line"]).tree["train"]
    settled = ReaderSpec.parse({"kind": "documents", "path": "texts/*.txt", "encoding": "latin-1", "unit": "line"})
    assert ReaderSpec.parse(tree).settle("documents", "train", Path()) == settled
    with pytest.raises(SpecError, match="unknown kind 'documens'"):
        ReaderSpec.parse({"kind": "documens", "path": "a.txt"})


@pytest.mark.parametrize(
    ("form", "kind"), [("pairs", "tsv"), ("documents", "documents"), ("labels", "labels"), ("tags", "columns")]
)
def test_an_ending_that_tells_nothing_is_settled_by_what_is_wanted(tmp_path: Path, form: str, kind: str) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n")
    settled = ReaderSpec.parse("a.tsv").settle(form, "train", tmp_path)
    assert settled.kind == kind
    assert settled.fields()["path"] == "a.tsv"
