"""Corpora of pictures: folders, archives, tables, IDX, CIFAR, NumPy; what is bad is counted and located, exactly."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from regard.data.column import ColumnSpec
from regard.data.corpus import CorpusSpec
from regard.data.gallery import PictureIndex
from regard.data.illustration import Illustration
from regard.data.lexicon import Lexicon
from regard.data.log import Log, Policy, Unusable
from regard.data.picture import Fit, fit_picture
from regard.data.preparation import prepare
from regard.data.prepared import Prepared, discard
from regard.data.reader import ReaderSpec
from regard.data.sample import Form, Sample
from regard.data.sieve import Row, Wants
from regard.data.tokenizer import TokenizerSpec
from regard.errors import CheckpointError, DataError, Doubt, SpecError
from tests.data.test_decoding import make_png

Image = pytest.importorskip("PIL.Image")


@dataclass
class Keeper:
    """What wants pictures as they are, or in one size."""

    form: Form = "images"
    size_wanted: int | None = None
    fit: Fit | None = None
    words: ClassVar[bool] = False
    kind: str = "keeper"
    special: tuple[str, ...] = ()

    def receive(self, sample: Sample) -> Sample:
        return {**sample, "picture": fit_picture(sample["picture"], self.size_wanted, self.fit)}

    def texts(self, sample: Sample) -> Sequence[str]:
        return sample.get("texts", ())

    def labels(self, sample: Sample) -> Sequence[str]:
        return [sample["label"]] if "label" in sample else []

    def letters(self, sample: Sample) -> Iterable[str]:
        return ()

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        assert lexicon.canvas is not None
        return {"picture": ColumnSpec(dtype=lexicon.canvas.dtype, shape=lexicon.canvas.shape)}

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Row]:
        return [{"picture": sample["picture"]} for sample in samples]

    def find_fault(self, row: Row) -> str:
        return ""

    def count_tokens(self, row: Row) -> int:
        return 1

    def places(self, row: Row) -> Mapping[str, int]:
        return {}


def make_ready(tree: Mapping[str, Any], folder: Path, keeper: Keeper | None = None) -> tuple[Prepared, Log]:
    corpus = CorpusSpec.parse({"kind": "files", "split": {"validation": 0}, **tree})
    return prepare(corpus, cast(Wants, keeper or Keeper()), TokenizerSpec(), 10, folder, folder / "data")


def draw(seed: int, size: tuple[int, ...] = (6, 5, 3)) -> NDArray[Any]:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def to_png(picture: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(picture[:, :, 0] if picture.shape[-1] == 1 else picture).save(file, "PNG")
    return file.getvalue()


FILES = {
    f"{label}/{n}.png": to_png(draw(10 * seed + n))
    for seed, label in enumerate(("cat", "dog", "owl"))
    for n in range(4)
}


def put(folder: Path, files: Mapping[str, bytes], how: str) -> str:
    """Files in a folder, a zip or a tar."""
    if how == "folder":
        for name, content in files.items():
            path = folder / "pictures" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return "pictures"
    if how == "zip":
        with zipfile.ZipFile(folder / "a.zip", "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return "a.zip"
    with tarfile.open(folder / f"a.{how}", f"w:{how.partition('.')[2]}") as packed:  # type: ignore[call-overload]
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            packed.addfile(header, io.BytesIO(content))
    return f"a.{how}"


def read(reader: Mapping[str, Any], folder: Path, form: Form = "images", policy: Policy = "skip") -> tuple[Any, Log]:
    log = Log(policy, folder / "report.txt")
    found = list(ReaderSpec.parse(reader).under(folder).read(form, log))
    log.close()
    return found, log


def report(folder: Path) -> list[str]:
    path = folder / "report.txt"
    return [line.replace(f"{folder}/", "") for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("how", ["folder", "zip", "tar", "tar.gz", "tar.xz"])
def test_a_folder_per_class_from_anywhere(tmp_path: Path, how: str) -> None:
    clutter = {"README.md": b"x", "cat/.hidden.png": b"x", "__MACOSX/cat/0.png": b"x", "cat/notes.txt": b"x"}
    path = put(tmp_path, FILES | clutter, how)
    found, log = read({"kind": "folders", "path": path}, tmp_path)
    assert log.summary() == "12 kept, 0 of them repaired, 0 skipped"
    names = {sample["place"].removeprefix(str(tmp_path / path)).lstrip("/:"): sample for sample in found}
    assert sorted(names) == sorted(FILES)
    for name, sample in names.items():
        assert sample["label"] == name.partition("/")[0]
        seed = 10 * ("cat", "dog", "owl").index(sample["label"]) + int(name[4])
        assert (sample["picture"] == draw(seed)).all()
    alone, _ = read({"kind": "folders", "path": path}, tmp_path, "pictures")
    assert [set(sample) for sample in alone] == [{"picture", "place"}] * 12
    if how != "folder":
        some, _ = read({"kind": "folders", "path": f"{path}:cat"}, tmp_path)
        assert [sample["label"] for sample in some] == ["cat"] * 4


def test_globs_and_lists_of_pictures(tmp_path: Path) -> None:
    put(tmp_path, FILES, "folder")
    found, log = read({"kind": "folders", "path": ["pictures/*/0.png", "pictures/cat"]}, tmp_path)
    assert [sample["label"] for sample in found] == ["cat", "dog", "owl"] and log.reasons == {"no label": 4}


BROKEN = {
    "cat/cut.png": FILES["cat/0.png"][:40],
    "cat/empty.png": b"",
    "dog/text.png": b"hello",
    "dog/old.gif": b"GIF89a",
    "alone.png": FILES["cat/0.png"],
}


@pytest.mark.parametrize("how", ["folder", "zip", "tar.xz"])
@pytest.mark.parametrize("policy", ["skip", "repair", "stop"])
def test_bad_pictures_are_counted_and_located(tmp_path: Path, how: str, policy: Policy) -> None:
    deep, inks, photo = io.BytesIO(), io.BytesIO(), io.BytesIO()
    Image.fromarray(np.full((6, 5), 513, np.uint16)).save(deep, "PNG")
    Image.fromarray(draw(70)).convert("CMYK").save(inks, "JPEG")
    Image.fromarray(draw(71)).save(photo, "JPEG")
    lossy = {"owl/deep.png": deep.getvalue(), "owl/inks.jpg": inks.getvalue()}
    bombs = {"dog/bomb.png": make_png(30_000, 30_000, 8, 2, bytes(10)), "dog/cut.jpg": photo.getvalue()[:-200]}
    path = put(tmp_path, FILES | BROKEN | lossy | bombs, how)
    if policy == "stop":
        with pytest.raises(DataError, match=r"\.(png|gif|jpg): .*\n  try: policy=skip"):
            read({"kind": "folders", "path": path}, tmp_path, policy=policy)
        return
    _, log = read({"kind": "folders", "path": path}, tmp_path, policy=policy)
    mended = 2 * (policy == "repair")
    assert (log.kept, log.repaired, log.skipped) == (12 + mended, mended, 9 - mended)
    assert log.reasons == {
        "damaged picture": 2,
        "too many pixels": 1,
        "CMYK": 1,
        "not a picture": 3,
        "no label": 1,
        "16 bits a channel": 1,
    }
    between = "/" if how == "folder" else ":"
    lines = report(tmp_path)
    assert f"{path}{between}dog/text.png: not a picture: it is no PNG, JPEG or WebP (skipped)" in lines
    assert f"{path}{between}alone.png: no label: it lies in no folder of a class (skipped)" in lines
    bomb = "too many pixels: 30000 × 30000, and 67,108,864 are the most (skipped)"
    assert f"{path}{between}dog/bomb.png: {bomb}" in lines
    assert len(lines) == 9


def test_a_damaged_member_of_a_zip_is_left_out_and_others_are_read(tmp_path: Path) -> None:
    path = put(tmp_path, FILES, "zip")
    content = bytearray((tmp_path / path).read_bytes())
    content[content.index(FILES["dog/2.png"]) + 30] ^= 255
    (tmp_path / path).write_bytes(content)
    _, log = read({"kind": "folders", "path": path}, tmp_path)
    assert (log.kept, log.skipped) == (11, 1)
    assert report(tmp_path) == ["a.zip:dog/2.png: damaged zip: Bad CRC-32 for file 'dog/2.png' (skipped)"]
    (tmp_path / path).write_bytes(bytes(content[:-30]))
    with pytest.raises(DataError, match="damaged zip"):
        read({"kind": "folders", "path": path}, tmp_path)


@pytest.mark.parametrize("how", ["tar", "tar.xz", "tar.gz"])
def test_an_archive_that_is_cut_short_never_passes_for_a_whole_one(tmp_path: Path, how: str) -> None:
    noise = {f"cat/{n:02}.png": to_png(draw(n, (20, 20, 3))) for n in range(20)}
    path = put(tmp_path, noise, how)
    content = (tmp_path / path).read_bytes()
    whole = len(content)
    if how == "tar":
        whole = content.rindex(b"cat/19.png")  # what follows the last member is nothing but zeros
    for share in (0.3, 0.5, 0.9):
        (tmp_path / path).write_bytes(content[: int(whole * share)])
        _, log = read({"kind": "folders", "path": path}, tmp_path)
        assert log.skipped == 1 and log.kept < 20, share
        assert "nothing behind it can be read" in report(tmp_path)[0]
    if how == "tar":  # just between two members
        (tmp_path / path).write_bytes(content[: content.index(b"cat/07.png")])
        _, log = read({"kind": "folders", "path": path}, tmp_path)
        assert (log.kept, log.skipped) == (7, 1)


def test_names_lead_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x.png").write_bytes(FILES["cat/0.png"])
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(FILES["cat/1.png"])
    (tmp_path / "in" / "a.tsv").write_text(f"../secret/x.png\tcat\n{tmp_path}/secret/x.png\tdog\na.png\towl\n")
    found, log = read({"kind": "tsv", "path": "in/a.tsv"}, tmp_path)
    assert [sample["label"] for sample in found] == ["owl"] and log.skipped == 2
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        for name, kind in (("../../cat/out.png", tarfile.REGTYPE), ("cat/link.png", tarfile.SYMTYPE)):
            header = tarfile.TarInfo(name)
            header.type, header.linkname, header.size = kind, "/etc/passwd", 0
            content = FILES["cat/0.png"] if kind == tarfile.REGTYPE else b""
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    found, _ = read({"kind": "folders", "path": "evil.tar"}, tmp_path)
    assert len(found) == 1  # it is read, and written nowhere
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted([*before, "evil.tar"])


# --- tables


@pytest.mark.parametrize("how", ["folder", "zip", "tar.xz"])
def test_captions_of_one_picture_are_one_sample(tmp_path: Path, how: str) -> None:
    """As Flickr8k has it: a row a caption, and pictures with another ending elsewhere."""
    path = put(tmp_path, {name.replace("/", ""): content for name, content in FILES.items()}, how)
    rows = [
        (f"{label}{n}.jpg", k, f" a {label} , {k} ") for label in ("cat", "dog") for n in range(2) for k in range(3)
    ]
    rows.append(("gone.jpg", 0, "nothing"))
    (tmp_path / "a.tsv").write_text("".join(f"{name}\t{k}\t{text}\n" for name, k, text in rows) + "cat0.jpg\n\n")
    tree = {"kind": "tsv", "path": "a.tsv", "texts": 2, "pictures": path}
    found, log = read(tree, tmp_path, "captions")
    assert (log.kept, log.skipped) == (4, 3)
    assert [sample["texts"] for sample in found] == [
        [f"a {label} , {k}" for k in range(3)] for label in ("cat", "dog") for _ in range(2)
    ]
    assert (found[1]["picture"] == draw(1)).all() and (found[2]["picture"] == draw(10)).all()
    assert log.reasons == {
        "no picture": 1,
        "too few columns": 1,
        "empty line": 1,
        "a picture without a caption": 8,
    }
    lines = report(tmp_path)
    assert "a.tsv:13: no picture: gone.jpg (skipped)" in lines
    between = "/" if how == "folder" else ":"
    assert f"{path}{between}owl3.png: a picture without a caption (kept)" in lines


def test_flickr_s_own_file_has_numbers_behind_names(tmp_path: Path) -> None:
    put(tmp_path, {"x/1.png": FILES["cat/0.png"], "x/2.png": FILES["cat/1.png"]}, "folder")
    (tmp_path / "t.txt").write_text("1.jpg#0\tone\n1.jpg#1\tuno\n2.jpg#0\ttwo\n1.jpg#2\tun\n")
    found, log = read({"kind": "tsv", "path": "t.txt", "pictures": "pictures"}, tmp_path, "captions")
    assert [sample["texts"] for sample in found] == [["one", "uno"], ["two"], ["un"]]
    assert log.reasons == {"rows of one picture apart": 1} and log.skipped == 0 and log.kept == 3


def test_tables_of_every_kind(tmp_path: Path) -> None:
    put(tmp_path, FILES, "folder")
    (tmp_path / "pictures" / "l.csv").write_text("image,label\ncat/0.png,cat\ndog/0,dog\n")
    (tmp_path / "pictures" / "c.jsonl").write_text(
        json.dumps({"file_name": "cat/0.png", "captions": ["a", "b"]})
        + "\n"
        + json.dumps({"file_name": "dog/0.png", "captions": "one text of words"})
        + "\n{}\n"
    )
    with pytest.raises(Doubt, match="fields here: image, label; looked for: picture") as doubt:
        read({"kind": "csv", "path": "pictures/l.csv", "header": True, "label": "label"}, tmp_path)
    assert next(iter(doubt.value.ways.values())) == {"picture": "image", "label": "label"}
    found, _ = read({"kind": "csv", "path": "pictures/l.csv", "picture": "image", "label": "label"}, tmp_path)
    assert [(sample["label"], sample["picture"].shape) for sample in found] == [("cat", (6, 5, 3)), ("dog", (6, 5, 3))]
    tree = {"kind": "jsonl", "path": "pictures/c.jsonl", "picture": "file_name", "texts": "captions"}
    found, log = read(tree, tmp_path, "captions")
    assert [sample["texts"] for sample in found] == [["a", "b"], ["one text of words"]] and log.skipped == 1
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("list.tsv", "1.png\tx\n2.png\ty\n")
        archive.writestr("deep/1.png", FILES["cat/0.png"])
        archive.writestr("deep/2.png", FILES["cat/1.png"])
    found, _ = read({"kind": "tsv", "path": "all.zip:list.tsv"}, tmp_path)
    assert [sample["label"] for sample in found] == ["x", "y"]


def test_rows_from_python_hold_pictures_themselves(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(FILES["cat/3.png"])
    cells = [draw(0), draw(0).tolist(), {"bytes": FILES["cat/0.png"], "path": None}, FILES["cat/0.png"]]
    cells += [Image.fromarray(draw(0)), {"bytes": None, "path": str(tmp_path / "a.png")}, str(tmp_path / "a.png")]
    rows = [{"picture": cell, "label": "x"} for cell in cells]
    found, log = read({"kind": "rows", "rows": [*rows, {"picture": 2.5, "label": "x"}]}, tmp_path)
    assert (log.kept, log.skipped) == (7, 1)
    assert all((sample["picture"] == draw(0 if n < 5 else 3)).all() for n, sample in enumerate(found))


def take_cell(cell: Any, folder: Path, policy: Policy = "skip") -> tuple[Any, Log]:
    found, log = read({"kind": "rows", "rows": [{"picture": cell, "label": "x"}]}, folder, policy=policy)
    return (found[0]["picture"] if found else None), log


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA"])
def test_a_picture_of_pillow_is_what_its_file_would_be(tmp_path: Path, mode: str) -> None:
    image = Image.fromarray(draw(3)).convert(mode)
    if mode.endswith("A"):
        image.putalpha(Image.fromarray(draw(4, (6, 5))))
    file = io.BytesIO()
    image.save(file, "PNG")
    given, log = take_cell(image, tmp_path)
    assert np.array_equal(given, take_cell(file.getvalue(), tmp_path)[0]) and log.kept == 1


def test_a_picture_of_pillow_is_turned_and_its_losses_are_told(tmp_path: Path) -> None:
    file = io.BytesIO()
    turn = Image.Exif()
    turn[0x0112] = 6
    Image.fromarray(draw(0)).save(file, "PNG", exif=turn)
    given, _ = take_cell(Image.open(file), tmp_path)
    assert np.array_equal(given, np.rot90(draw(0), -1))
    deep = Image.fromarray(np.full((6, 5), 513, np.uint16))
    for image, reason in ((deep, "16 bits a channel"), (Image.new("CMYK", (4, 4)), "CMYK")):
        given, log = take_cell(image, tmp_path)
        assert given is None and (log.kept, log.skipped, log.reasons) == (0, 1, {reason: 1})
        given, log = take_cell(image, tmp_path, "repair")
        assert given is not None and (log.kept, log.repaired, log.skipped) == (1, 1, 0)
    assert take_cell(Image.new("F", (4, 4)), tmp_path)[1].reasons == {"not a picture": 1}


@pytest.mark.parametrize("cell", [[[0.5, 0.9], [1.0, 0.2]], [[0, 256]], [[-1, 3]], [[True, False]], [], [[1], [2, 3]]])
def test_lists_of_other_than_bytes_are_no_pictures(tmp_path: Path, cell: list[Any]) -> None:
    given, log = take_cell(cell, tmp_path)
    assert given is None and (log.kept, log.skipped, log.reasons) == (0, 1, {"not a picture": 1})


def test_pictures_in_rows_have_a_largest_size(tmp_path: Path) -> None:
    for cell in (draw(0), draw(0).tolist(), Image.fromarray(draw(0))):
        log = Log()
        log.keep()
        rows = iter([{"picture": cell, "label": "x", "place": "rows:1"}])
        assert not list(Illustration("images", None, log, 29)(rows)) and log.reasons == {"too many pixels": 1}


def test_names_of_pictures_agree_as_far_as_they_go() -> None:
    index = PictureIndex(["a/1.webp", "b/1.webp", "b/2.webp", "c.webp"])
    assert index.find("a/1.jpg") == "a/1.webp" and index.find("x/b/2.jpg") == "b/2.webp"
    assert index.find("2") == "b/2.webp" and index.find("c.jpg#3") == "c.webp" and index.find("deep/c") == "c.webp"
    for name in ("a/2.jpg", "3.jpg", "", "../b/a/2", "#0"):
        with pytest.raises(Unusable, match="no picture"):
            index.find(name)
    with pytest.raises(Unusable, match=r"several pictures: 1\.jpg may be a/1\.webp or b/1\.webp"):
        index.find("1.jpg")


def test_endings_are_those_of_pictures_and_the_same_one_is_meant_first() -> None:
    index = PictureIndex(["in/a.jpg", "in/a.png", "in/b.1.jpg", "in/b.2.JPG", "in/c.jpg"])
    assert index.find("a.jpg") == "in/a.jpg" and index.find("in/a.png#0") == "in/a.png"
    assert index.find("b.1") == "in/b.1.jpg" and index.find("b.2.tif") == "in/b.2.JPG"
    for name in ("c.7", "b", "b.3"):
        with pytest.raises(Unusable, match="no picture"):
            index.find(name)
    for name in ("a", "a.webp"):
        with pytest.raises(Unusable, match="several pictures"):
            index.find(name)


@pytest.mark.parametrize("how", ["folder", "zip", "tar", "tar.gz"])
def test_a_name_that_fits_two_pictures_takes_none(tmp_path: Path, how: str) -> None:
    path = put(tmp_path, {f"{part}/1.png": to_png(draw(n)) for n, part in enumerate(("train", "test"))}, how)
    (tmp_path / "a.tsv").write_text("1.png\tcat\n")
    found, log = read({"kind": "tsv", "path": "a.tsv", "pictures": path}, tmp_path)
    assert not found and (log.kept, log.skipped) == (0, 1)
    assert log.reasons == {"several pictures": 1, "a picture without a row": 2}
    (tmp_path / "a.tsv").write_text("test/1.png\tcat\ntrain/1.png\tdog\n")
    found, log = read({"kind": "tsv", "path": "a.tsv", "pictures": path}, tmp_path)
    assert {sample["label"]: int(sample["picture"].sum()) for sample in found} == {
        "cat": draw(1).sum(),
        "dog": draw(0).sum(),
    }


@pytest.mark.parametrize("how", ["folder", "zip", "tar"])
def test_two_names_for_one_picture_are_refused(tmp_path: Path, how: str) -> None:
    """A table of all splits, and the pictures of one."""
    path = put(tmp_path, {"1.png": to_png(draw(0)), "2.png": to_png(draw(1))}, how)
    (tmp_path / "a.tsv").write_text("1.png\tcat\ntrain/1.png\tcat\ntrain/2.png\tcat\ntest/1.png\tdog\n")
    with pytest.raises(DataError, match=r"train/1\.png and test/1\.png in the table would both be 1\.png"):
        read({"kind": "tsv", "path": "a.tsv", "pictures": path}, tmp_path)


# --- IDX, CIFAR, NumPy


def write_idx(path: Path, array: NDArray[Any], magic: bytes | None = None, count: int | None = None) -> None:
    begin = magic or bytes([0, 0, 8, array.ndim])
    sizes = struct.pack(f">{array.ndim}I", count or array.shape[0], *array.shape[1:])
    content = begin + sizes + array.tobytes()
    packers: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress}
    path.write_bytes(packers.get(path.suffix, bytes)(content))


DIGITS, ANSWERS = draw(5, (7, 4, 3)), np.arange(7, dtype=np.uint8) % 3


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_idx_is_read_packed_or_not(tmp_path: Path, ending: str) -> None:
    write_idx(tmp_path / f"t-images-idx3-ubyte{ending}", DIGITS)
    write_idx(tmp_path / f"t-labels-idx1-ubyte{ending}", ANSWERS)
    found, log = read({"kind": "idx", "path": f"t-images-idx3-ubyte{ending}"}, tmp_path)
    assert (np.stack([sample["picture"][:, :, 0] for sample in found]) == DIGITS).all() and log.kept == 7
    assert [sample["label"] for sample in found] == ["0", "1", "2", "0", "1", "2", "0"]
    tree = {"kind": "idx", "path": f"t-images-idx3-ubyte{ending}", "classes": ["a", "b"]}
    tree |= {"labels": f"t-labels-idx1-ubyte{ending}"}
    found, log = read(tree, tmp_path)
    assert [sample["label"] for sample in found] == ["a", "b", "a", "b", "a"] and log.skipped == 2
    alone, _ = read({"kind": "idx", "path": f"t-images-idx3-ubyte{ending}"}, tmp_path, "pictures")
    assert [set(sample) for sample in alone] == [{"picture", "place"}] * 7
    assert ReaderSpec.parse(f"t-images-idx3-ubyte{ending}").kind == "idx"


def test_bad_idx_is_refused_or_counted(tmp_path: Path) -> None:
    tree = {"kind": "idx", "path": "i", "labels": "l"}
    write_idx(tmp_path / "l", ANSWERS[:5])
    write_idx(tmp_path / "i", DIGITS)
    _, log = read(tree, tmp_path)
    assert (log.kept, log.skipped) == (5, 2) and report(tmp_path)[0] == "i:6: no label (skipped)"
    write_idx(tmp_path / "l", ANSWERS)
    write_idx(tmp_path / "i", DIGITS[:6])
    _, log = read(tree, tmp_path)
    assert (log.kept, log.skipped) == (6, 1) and report(tmp_path) == ["l:7: no picture: a label without one (skipped)"]
    write_idx(tmp_path / "i", DIGITS, count=9)
    _, log = read(tree, tmp_path)
    assert (log.kept, log.skipped) == (7, 1) and report(tmp_path) == ["i:8: cut short: 7 of 9 are there (skipped)"]
    for magic, reason in (
        (b"\0\0\x0d\3", "float32"),
        (b"\0\1\x08\3", "not IDX: it begins with 00 01 08 03"),
        (b"\0\0\x08\1", "1 axes, and 3 or 4 are wanted"),
    ):
        write_idx(tmp_path / "i", DIGITS, magic)
        with pytest.raises(DataError, match=reason):
            read(tree, tmp_path)
    (tmp_path / "i").write_bytes(b"\0\0\x08\3\0\0")
    with pytest.raises(DataError, match="ends within its header"):
        read(tree, tmp_path)
    (tmp_path / "i").write_bytes(b"\0\0\x08\3" + struct.pack(">3I", 1, 2**31, 2**31))
    with pytest.raises(DataError, match="67,108,864 pixels are the most"):
        read(tree, tmp_path)
    with pytest.raises(DataError, match="which file has its labels"):
        read({"kind": "idx", "path": "i"}, tmp_path)
    write_idx(tmp_path / "i.xz", draw(0, (50, 20, 20)))
    (tmp_path / "i.xz").write_bytes((tmp_path / "i.xz").read_bytes()[:9000])
    _, log = read({"kind": "idx", "path": "i.xz"}, tmp_path, "pictures")
    assert log.skipped == 1 and 0 < log.kept < 50 and "damaged xz" in report(tmp_path)[0]


@pytest.mark.parametrize("how", ["folder", "zip", "tar.gz"])
def test_cifar_s_batches_are_read(tmp_path: Path, how: str) -> None:
    pictures = draw(1, (4, 32, 32, 3))
    records = [bytes([n]) + picture.transpose(2, 0, 1).tobytes() for n, picture in enumerate(pictures)]
    names = "\n".join(f"class{n}" for n in range(10)) + "\n\n"
    files = {"b/batches.meta.txt": names.encode(), "b/data_batch_1.bin": records[0] + records[1]}
    files |= {"b/data_batch_2.bin": b"\x0b" + records[2][1:] + records[2] + b"xx", "b/test_batch.bin": records[3]}
    path = put(tmp_path, files, how)
    found, log = read({"kind": "cifar", "path": path}, tmp_path)
    assert [sample["label"] for sample in found] == ["class0", "class1", "class2"]
    assert (np.stack([sample["picture"] for sample in found]) == pictures[:3]).all()
    assert log.reasons == {"unknown label": 1, "cut short": 1} and log.skipped == 2
    member = f"{path}/b/test_batch.bin" if how == "folder" else f"{path}:b/test_batch.bin"
    found, _ = read({"kind": "cifar", "path": member}, tmp_path)
    assert len(found) == 1 and (found[0]["picture"] == pictures[3]).all()


@pytest.mark.parametrize("how", ["zip", "tar.gz"])
def test_cifar_s_names_count_wherever_they_stand(tmp_path: Path, how: str) -> None:
    record = bytes([3]) + draw(1, (3, 32, 32)).tobytes()
    names = "\n".join(f"class{n}" for n in range(10)).encode()
    files = {f"b/{name}.bin": record for name in ("test_batch", "data_batch_1")} | {"b/batches.meta.txt": names}
    path = put(tmp_path, files | {"b/data_batch_2.bin": record}, how)
    for part, count in ((path, 2), (f"{path}:b/test_batch.bin", 1)):
        found, log = read({"kind": "cifar", "path": part}, tmp_path)
        assert [sample["label"] for sample in found] == ["class3"] * count and not log.reasons
    if how == "zip":  # names that can't be read are told of
        content = bytearray((tmp_path / path).read_bytes())
        content[content.index(b"class0")] ^= 255
        (tmp_path / path).write_bytes(content)
        found, log = read({"kind": "cifar", "path": path}, tmp_path)
        assert [sample["label"] for sample in found] == ["3", "3"] and log.reasons == {"damaged zip": 1}


def test_cifar_has_two_labels_in_its_hundred_classes(tmp_path: Path) -> None:
    record = bytes([7, 42]) + draw(2, (3, 32, 32)).tobytes()
    (tmp_path / "train.bin").write_bytes(record * 2)
    assert [sample["label"] for sample in read({"kind": "cifar", "path": "train.bin"}, tmp_path)[0]] == ["42", "42"]
    found, _ = read({"kind": "cifar", "path": "train.bin", "classes": 20}, tmp_path)
    assert [sample["label"] for sample in found] == ["7", "7"]


def test_numpy_s_arrays_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.readers.numpy.PIECE", 100)
    images, labels = draw(0, (9, 6, 5, 3)), np.arange(9) % 4
    np.savez_compressed(tmp_path / "a.npz", x=images, y=labels, z=images[:, :, :, 0])
    found, log = read({"kind": "numpy", "path": "a.npz"}, tmp_path)
    assert (np.stack([sample["picture"] for sample in found]) == images).all() and log.kept == 9
    assert [sample["label"] for sample in found] == [str(n) for n in labels]
    found, _ = read({"kind": "numpy", "path": "a.npz", "images": "z", "classes": list("abcd")}, tmp_path)
    assert found[0]["picture"].shape == (6, 5, 1) and found[5]["label"] == "b"
    np.save(tmp_path / "f.npy", np.asfortranarray(images))
    np.save(tmp_path / "first.npy", images.transpose(0, 3, 1, 2))
    np.save(tmp_path / "flat.npy", images.reshape(9, -1))
    np.save(tmp_path / "names.npy", np.array([f"n{n}" for n in range(8)]))
    for name, settings in (("f", {}), ("first", {"axes": "first"}), ("flat", {"size": [6, 5]})):
        found, _ = read({"kind": "numpy", "path": f"{name}.npy", **settings}, tmp_path, "pictures")
        assert (np.stack([sample["picture"] for sample in found]) == images).all(), name
    found, log = read({"kind": "numpy", "path": "f.npy", "labels": "names.npy"}, tmp_path)
    assert [sample["label"] for sample in found] == [f"n{n}" for n in range(8)] and log.skipped == 1
    maps = np.random.default_rng(0).normal(size=(3, 2, 2, 8)).astype(np.float32)
    np.save(tmp_path / "maps.npy", maps)
    found, _ = read({"kind": "numpy", "path": "maps.npy"}, tmp_path, "pictures")
    assert (np.stack([sample["picture"] for sample in found]) == maps).all()


def test_arrays_are_known_by_their_ending_and_maps_by_their_folders(tmp_path: Path) -> None:
    maps = np.random.default_rng(0).normal(size=(4, 2, 2, 8)).astype(np.float32)
    for n, one in enumerate(maps):
        (tmp_path / "maps" / f"c{n % 2}").mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / "maps" / f"c{n % 2}" / f"{n}.npy", one)
    np.save(tmp_path / "a.npy", maps)
    np.savez(tmp_path / "a.npz", x=maps)
    for name in ("a.npy", "a.npz", ["a.npy", "a.npz"]):
        reader = ReaderSpec.parse(name)
        assert reader.kind == "numpy"
        assert list(reader.under(tmp_path).read("pictures", Log()))
    found, _ = make_ready({"train": "a.npy"}, tmp_path, Keeper("pictures"))
    assert (found.columns["picture"].gather(range(4)) == maps).all()
    discard(tmp_path / "data")
    assert make_ready({"train": "maps"}, tmp_path)[0].lexicon.labels == ["c0", "c1"]


def test_one_file_of_labels_is_not_for_several_of_pictures(tmp_path: Path) -> None:
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", draw(0, (3, 6, 5, 3)))
    np.save(tmp_path / "labels.npy", np.arange(6))
    for path in (["a.npy", "b.npy"], "[ab].npy"):
        tree = {"kind": "numpy", "path": path, "labels": "labels.npy"}
        with pytest.raises(SpecError, match=r"labels\.npy is one file for 2 of pictures"):
            read(tree, tmp_path)
        assert len(read(tree, tmp_path, "pictures")[0]) == 6
    parts = [{"path": f"{name}.npy", "labels": "labels.npy"} for name in ("a", "b")]  # as the message tells
    assert len(read({"kind": "several", "parts": parts}, tmp_path)[0]) == 6


@pytest.mark.parametrize("order", ["big", "little"])
def test_packed_bits_are_pixels(tmp_path: Path, order: Any) -> None:
    bits = np.random.default_rng(0).random((5, 7 * 3)) < 0.5
    np.savez(tmp_path / "a.npz", train=np.asfortranarray(np.packbits(bits, axis=1, bitorder=order)))
    tree = {"kind": "numpy", "path": "a.npz", "images": "train", "bits": order, "size": [7, 3]}
    found, _ = read(tree, tmp_path, "pictures")
    assert (np.stack([sample["picture"].reshape(-1) for sample in found]) == bits * 255).all()
    found, log = read(tree | {"size": [9, 9]}, tmp_path, "pictures")
    assert not found and log.reasons == {"not packed bits": 5}
    with pytest.raises(SpecError, match="bits: pictures that are packed need a size"):
        ReaderSpec.parse({"kind": "numpy", "path": "a.npz", "bits": "big"})


def test_bad_numpy_is_refused_or_counted(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{}, []], dtype=object))
    with pytest.raises(DataError, match="pickled objects, which are never loaded"):
        read({"kind": "numpy", "path": "a.npz"}, tmp_path, "pictures")
    with pytest.raises(DataError, match="there are x; looked for: y"):
        read({"kind": "numpy", "path": "a.npz", "images": "y"}, tmp_path, "pictures")
    np.save(tmp_path / "a.npy", draw(0, (9, 6, 5, 3)))
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:-100])
    _, log = read({"kind": "numpy", "path": "a.npy"}, tmp_path, "pictures")
    assert (log.kept, log.skipped) == (7, 1) and report(tmp_path) == ["a.npy:8: cut short: 7 of 9 are there (skipped)"]
    with pytest.raises(DataError, match="it is one array: where are the labels"):
        read({"kind": "numpy", "path": "a.npy"}, tmp_path)
    for content in (b"", b"x" * 99, whole[:50], whole[:6] + b"\x09" + whole[7:]):
        (tmp_path / "a.npy").write_bytes(content)
        with pytest.raises(DataError, match="not an array of NumPy"):
            read({"kind": "numpy", "path": "a.npy"}, tmp_path, "pictures")
    np.savez_compressed(tmp_path / "b.npz", x=draw(0, (400, 6, 5, 3)))
    broken = bytearray((tmp_path / "b.npz").read_bytes())
    broken[len(broken) // 2] ^= 255
    (tmp_path / "b.npz").write_bytes(broken)
    _, log = read({"kind": "numpy", "path": "b.npz"}, tmp_path, "pictures")
    assert log.skipped == 1 and log.kept < 400


# --- preparation


def test_pictures_of_another_size_are_counted_or_fitted_and_never_mixed(tmp_path: Path) -> None:
    odd = {"dog/wide.png": to_png(draw(90, (6, 9, 3))), "owl/grey.png": to_png(draw(91, (6, 5, 1)))}
    path = put(tmp_path, FILES | odd, "folder")
    tree = {"train": {"kind": "folders", "path": path}}
    _, log = make_ready(tree, tmp_path)
    assert (log.kept, log.skipped) == (12, 2) and log.reasons == {"another size": 1, "other channels": 1}
    lines = (tmp_path / "data" / "rejected.txt").read_text()
    told = (
        "another size: 6 × 9, and the first picture is 6 × 5; task.size=[6, 5] task.fit=resize, crop or pad (skipped)"
    )
    assert f"{tmp_path}/pictures/dog/wide.png: {told}" in lines
    assert "owl/grey.png: other channels: 1, and the first picture has 3; task.channels=3 (skipped)" in lines
    discard(tmp_path / "data")
    prepared, log = make_ready(tree, tmp_path, Keeper(size_wanted=8, fit="pad"))
    assert log.reasons == {"other channels": 1} and len(prepared) == 13
    assert prepared.lexicon.canvas is not None and prepared.lexicon.canvas.shape == (8, 8, 3)
    with pytest.raises(DataError, match="another size: 6 × 5, and 8 × 8 is wanted"):
        make_ready(tree | {"policy": "stop"}, tmp_path, Keeper(size_wanted=8))


def test_a_prepared_corpus_maps_its_pictures(tmp_path: Path) -> None:
    path = put(tmp_path, FILES, "zip")
    tree = {"train": {"kind": "folders", "path": path}, "validation": {"kind": "folders", "path": f"{path}:cat"}}
    prepared, log = make_ready(tree, tmp_path)
    assert log.notes == ["4 of 4 samples of validation are trained on too"]
    names = sorted(file.name for file in (tmp_path / "data").iterdir())
    assert names == [
        *("data.json", "files.json", "lexicon.json", "train.picture", "train.picture.ends"),
        *("validation.arrays", "validation.jsonl"),
    ]
    assert {"validation.arrays", "validation.jsonl", "train.picture"} <= prepared.facts["files"].keys()
    assert "base64" not in (tmp_path / "data" / "validation.jsonl").read_text()
    samples = prepared.samples("validation")
    assert [(sample["picture"] == draw(n)).all() for n, sample in enumerate(samples)] == [True] * 4
    samples[0]["picture"][:] = 0  # it is the reader's own
    assert (prepared.samples("validation")[0]["picture"] == draw(0)).all()
    pictures = np.stack([draw(10 * label + n) for label in range(3) for n in range(4)])
    gathered = prepared.columns["picture"].gather([5, 0, 11, 5])
    assert (gathered == pictures[[5, 0, 11, 5]]).all() and gathered.dtype == np.uint8
    gathered[:] = 0
    assert (prepared.columns["picture"].gather(range(12)) == pictures).all()
    canvas = prepared.lexicon.canvas
    assert canvas is not None and np.allclose(canvas.mean, pictures.reshape(-1, 3).mean(0) / 255)
    moved = tmp_path / "moved"
    os.rename(tmp_path / "data", moved)
    again = Prepared.load(moved)
    assert (again.samples("validation")[3]["picture"] == draw(3)).all() and again.lexicon.canvas == canvas
    for name in ("validation.arrays", "train.picture"):
        content = (moved / name).read_bytes()
        (moved / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(CheckpointError, match=f"{name}: damaged"):
            Prepared.load(moved)
        (moved / name).write_bytes(content)
    (moved / "own.txt").write_text("mine")
    assert not discard(moved) and [file.name for file in moved.iterdir()] == ["own.txt"]


def test_memory_does_not_grow_with_the_pictures(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        pictures = np.broadcast_to(draw(0, (1, 100, 100, 3)), (count, 100, 100, 3))
        np.save(tmp_path / "train.npy", pictures)
        discard(tmp_path / "data")
        tracemalloc.start()
        prepared, _ = make_ready({"train": "train.npy"}, tmp_path, Keeper("pictures"))
        assert len(prepared) == count
        for first in range(0, count, 50):
            prepared.columns["picture"].gather(range(first, first + 50))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(1200) < peak(600) + 1_000_000  # of 18 megabytes more


def test_the_digest_covers_every_pixel_and_a_split_goes_by_pixels(tmp_path: Path) -> None:
    many = {f"c{n % 2}/{n}.png": to_png(draw(n % 40)) for n in range(80)}  # every picture twice
    path = put(tmp_path, many, "zip")
    tree = {"train": {"kind": "folders", "path": path}, "split": {"validation": 0.3}}
    first, log = make_ready(tree, tmp_path)
    assert first.facts["samples"]["train"] + first.facts["samples"]["validation"] == 80 and not log.skipped
    kept = {sample["picture"].tobytes() for sample in first.samples("validation")}
    trained = {picture.tobytes() for picture in first.columns["picture"].gather(range(len(first)))}
    assert not kept & trained and len(kept) + len(trained) == 40
    digest = first.digest
    discard(tmp_path / "data")
    assert make_ready(tree, tmp_path)[0].digest == digest
    discard(tmp_path / "data")
    changed = draw(0)
    changed[3, 2, 1] ^= 1
    put(tmp_path, many | {"c0/0.png": to_png(changed)}, "zip")
    assert make_ready(tree, tmp_path)[0].digest != digest


def test_a_killed_preparation_leaves_nothing_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    path = put(tmp_path, FILES, "zip")
    tree = {"train": {"kind": "folders", "path": path}, "split": {"validation": 0.3}}
    for place in ("_lexicon", "_encode", "settle_shares", "replace_spool", "check"):
        with monkeypatch.context() as patch:
            patch.setattr(f"regard.data.preparation.{place}", die)
            with pytest.raises(KeyboardInterrupt):
                make_ready(tree, tmp_path)
        assert (tmp_path / "data").is_dir() and discard(tmp_path / "data")


def test_maps_of_features_keep_their_numbers(tmp_path: Path) -> None:
    maps = np.random.default_rng(0).normal(3, 2, (12, 2, 3, 16)).astype(np.float32)
    np.savez(tmp_path / "a.npz", x=maps, v=maps[:5])
    tree = {
        split: {"kind": "numpy", "path": "a.npz", "images": key} for split, key in (("train", 0), ("validation", 1))
    }
    prepared, _ = make_ready(tree, tmp_path, Keeper("pictures"))
    assert (prepared.columns["picture"].gather(range(12)) == maps).all()
    found = np.stack([sample["picture"] for sample in prepared.samples("validation")])
    assert found.dtype == np.float32 and (found == maps[:5]).all()
    canvas = prepared.lexicon.canvas
    assert (
        canvas is not None and canvas.dtype == "float32" and np.allclose(canvas.mean, maps.mean((0, 1, 2)), atol=1e-5)
    )
