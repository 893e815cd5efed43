"""Files of pictures that nobody has described: which reader, which column, where the pictures lie; looks and drafts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.guess import propose_corpus
from regard.data.hunch import names_pictures, tell_pictures
from regard.errors import DataError
from regard.runs.draft import draft
from regard.runs.look import look_at_files

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of two classes in folders, in archives, in splits, and tables that name them."""
    root = tmp_path_factory.mktemp("album")
    for n in range(24):
        label, part = ("cat", "dog")[n % 2], "val" if n > 19 else "train"
        picture = np.random.default_rng(n).integers(0, 256, (8, 9, 3), np.uint8)
        for folder in (root / "pics" / label, root / "parts" / part / label):
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture).save(folder / f"{n}.png")
    Image.fromarray(np.zeros((20, 9), np.uint8)).save(root / "pics" / "cat" / "odd.png")
    (root / "pics" / "cat" / "cut.png").write_bytes((root / "pics" / "cat" / "0.png").read_bytes()[:60])
    shutil.make_archive(str(root / "a"), "zip", root / "pics")
    shutil.make_archive(str(root / "a"), "xztar", root / "pics")
    names = [f"{('cat', 'dog')[n % 2]}/{n}.jpg" for n in range(24)]
    (root / "tables").mkdir()
    shutil.copy(root / "a.zip", root / "tables" / "images.zip")
    rows = [f"{name}\t{k}\tThe {name[:3]} of row {n} is here .\n" for n, name in enumerate(names) for k in range(2)]
    (root / "tables" / "captions.tsv").write_text("".join(rows))
    (root / "pics" / "labels.csv").write_text("image,species\n" + "".join(f"{name},{name[:3]}\n" for name in names))
    digits = root / "digits"
    digits.mkdir()
    header = bytes([0, 0, 8, 3]) + b"".join(size.to_bytes(4) for size in (30, 5, 5))
    (digits / "train-images-idx3-ubyte").write_bytes(header + bytes(range(250)) * 3)
    (digits / "train-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1]) + (30).to_bytes(4) + bytes(range(10)) * 3)
    (digits / "t10k-images-idx3-ubyte").write_bytes(header)
    np.savez(root / "both.npz", x=np.zeros((9, 4, 4, 3), np.uint8), y=np.arange(9))
    np.savez(root / "alone.npz", train=np.zeros((9, 4, 4), np.uint8))
    return root


@pytest.mark.parametrize(
    ("name", "form", "settings"),
    [
        ("pics/cat", "pictures", {"kind": "folders"}),
        ("parts", "images", {"kind": "folders"}),
        ("a.zip", "images", {"kind": "folders"}),
        ("a.tar.xz", "images", {"kind": "folders"}),
        ("pics/labels.csv", "images", {"kind": "csv", "picture": "image", "label": "species"}),
        ("tables/captions.tsv", "captions", {"kind": "tsv", "picture": 0, "texts": 2, "pictures": "tables/images.zip"}),
        ("digits", "images", {"kind": "idx"}),
        ("digits/t10k-images-idx3-ubyte", "pictures", {"kind": "idx"}),
        ("both.npz", "images", {"kind": "numpy"}),
        ("alone.npz", "pictures", {"kind": "numpy"}),
    ],
)
def test_files_tell_their_form_and_reader(
    album: Path, name: str, form: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(album)
    found = propose_corpus([name])
    assert found.form == form
    tree = dict(found.corpus["train"])
    assert tree.pop("path") == ("parts/train" if name == "parts" else name) and tree == settings
    if name == "parts":
        assert found.corpus["validation"] == {"kind": "folders", "path": "parts/val"}


def test_a_look_counts_sizes_labels_and_what_is_odd(album: Path) -> None:
    look = look_at_files([str(album / "a.zip")]).as_json()["splits"]["train"]
    assert (look["samples"], look["left_out"], look["labels"]) == (25, 1, {"cat": 13, "dog": 12})
    assert look["sizes"] == {"8 × 9 × 3": 24, "20 × 9 × 1": 1}
    assert list(look["faults"]) == ["damaged picture"] and look["faults"]["damaged picture"]["count"] == 1
    assert any("task.size=[8, 9] task.fit=resize, task.channels=3" in name for name in look["suspicious"])
    assert look["examples"][0]["picture"].startswith("uint8 (8, 9, 3) ")
    captions = look_at_files([str(album / "tables" / "captions.tsv")]).as_json()["splits"]["train"]
    assert captions["samples"] == 24 and captions["lengths"]["texts"]["median"] == 2
    said = {word for n in range(24) for word in f"The {('cat', 'dog')[n % 2]} of row {n} is here .".split()}
    assert captions["words"] == len(said)


def test_drafts_fit_their_pictures(album: Path) -> None:
    made = draft(None, [str(album / "a.zip")])
    assert made.task == "images" and made.tree["model"] == {"kind": "cct-2-3x2"}
    assert made.tree["task"] == {"kind": "images", "size": [8, 9], "fit": "resize", "channels": 3}
    assert draft(None, [str(album / "digits")]).tree["task"] == "images"
    made = draft(None, [str(album / "tables" / "captions.tsv")])
    assert made.task == "captioning" and made.tree["task"] == "captioning" and "tokenizer" in made.tree
    assert draft(None, [str(album / "alone.npz")]).tree["task"] == "pixels"


def test_what_can_not_be_used_is_told_with_what_to_do(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", train=np.zeros((9, 98), np.uint8))
    with pytest.raises(DataError, match=r"flat 9(.|\n)*size: \[28, 28\], and bits: big"):
        draft(None, [str(tmp_path / "a.npz")])


def test_names_and_columns_of_pictures() -> None:
    assert names_pictures(["a.jpg", "b/c.PNG", "d.jpeg#3"]) and not names_pictures(["a.jpg", "b", "c"])
    assert tell_pictures(["a/1.png", "a/2.jpg", "README.md"]) == "folders"
    assert tell_pictures(["a.txt", "b.txt"]) is None and tell_pictures([]) is None
    assert tell_pictures(["data_batch_1.bin", "batches.meta.txt"]) == "cifar"
