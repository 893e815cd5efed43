"""A run that learned pixels, from the command line: it draws and completes, and verbs that look after runs serve it."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from regard.data.picture import read_picture
from regard.decode.painter import Painter
from regard.host.png import encode_png
from regard.runs.load import load
from tests.cli.test_cli import Done, regard

SIZE = (4, 6)


def make_pictures(count: int, seed: int) -> np.ndarray:
    """Black pictures with one white column each."""
    pictures = np.zeros((count, *SIZE, 1), np.uint8)
    pictures[np.arange(count), :, np.random.default_rng(seed).integers(0, SIZE[1], count)] = 255
    return pictures


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run file, its pictures, and the run."""
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("strokes")
    np.save(place / "train.npy", make_pictures(120, 1))
    np.save(place / "valid.npy", make_pictures(20, 2))
    (place / "one.png").write_bytes(encode_png(make_pictures(1, 3)[0]))
    (place / "run.yaml").write_text(f"""
task: {{kind: pixels, binarise: static, order: s-curve}}
corpus:
  kind: files
  train: {{kind: numpy, path: train.npy}}
  validation: {{kind: numpy, path: valid.npy}}
data: {place}
model: {{kind: pixel-gpt, width: 16, depth: 1}}
batches: {{rows: 8}}
train: {{steps: 6, save: 3, evaluate: 3}}
device: cpu
out: {place / "run"}
""")
    done = regard("train", str(place / "run.yaml"))
    assert done.returncode == 0, done.stderr
    assert "binarisation    the file's own" in done.stdout and "order           s-curve" in done.stdout
    return place


def ask(folder: Path, verb: str, *words: str) -> Done:
    return regard(verb, str(folder / "run"), *words)


def test_a_sheet_of_samples_is_written(folder: Path) -> None:
    out = folder / "new" / "sheet.png"
    done = ask(folder, "sample", "--grid", "2x3", "--out", str(out), "--scale", "2", "--seed", "1")
    assert (done.returncode, done.stdout) == (0, f"{out}\n"), done.stderr
    sheet = read_picture(out)
    assert sheet.shape == (2 * 8 + 1, 3 * 12 + 2, 1)
    drawn = load(str(folder / "run"), kind=Painter).sample(6, seed=1)
    assert (sheet[9::2, 26::2] == drawn[5].picture).all()
    first = out.read_bytes()
    ask(folder, "sample", "--grid", "2x3", "--out", str(out), "--scale", "2", "--seed", "1")
    assert out.read_bytes() == first
    assert [path.name for path in out.parent.iterdir()] == ["sheet.png"]


def test_samples_are_told_as_data(folder: Path) -> None:
    done = ask(folder, "sample", "--grid", "1x2", "--json")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    drawn = load(str(folder / "run"), kind=Painter).sample(2)
    assert [one["picture"] for one in told] == [drawing.picture.tolist() for drawing in drawn]
    assert [one["nats"] for one in told] == pytest.approx([drawing.nats for drawing in drawn])


def test_a_picture_is_completed(folder: Path) -> None:
    out, one = folder / "half.png", folder / "one.png"
    done = ask(folder, "complete", str(one), "--rows", "2", "--count", "3", "--out", str(out), "--scale", "1")
    assert done.returncode == 0, done.stderr
    sheet, picture = read_picture(out), read_picture(one)
    assert sheet.shape == (4, 4 * 7 - 1, 1)
    for column in range(4):
        assert (sheet[:2, 7 * column : 7 * column + 6] == picture[:2]).all()
    assert (sheet[2:, :6] == 96).all()  # what isn't given


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_what_fits(folder: Path) -> None:
    screen = Terminal()
    size = os.terminal_size((20, 24))
    with patch("shutil.get_terminal_size", return_value=size), patch.object(sys, "stdout", screen):
        done = regard_on(screen, "sample", str(folder / "run"), "--grid", "2x2")
        assert done.returncode == 0, done.stderr
        assert len(screen.getvalue().splitlines()) == 5 and "▀" in screen.getvalue()
        done = regard_on(screen, "sample", str(folder / "run"), "--grid", "1x3")
        assert done.returncode == 0
        done = regard_on(screen, "sample", str(folder / "run"), "--grid", "1x4")
    assert "take 27 columns, and the terminal has 20" in done.stderr and "3 pictures side by side" in done.stderr


def regard_on(screen: Terminal, *words: str) -> Done:
    """The program with a terminal for its standard output."""
    from contextlib import redirect_stderr

    from regard.cli import run

    err = io.StringIO()
    with patch.object(sys, "argv", ["regard", *words]), redirect_stderr(err):
        try:
            run()
        except SystemExit as stop:
            return Done(int(stop.code or 0), screen.getvalue(), err.getvalue())
    return Done(0, screen.getvalue(), err.getvalue())


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["sample"], "standard output is no terminal"),
        (["sample", "--grid", "8", "--out", "a.png"], "--grid 8: it is rows and columns"),
        (["sample", "--grid", "99x99", "--out", "a.png"], "4,096 pictures at most"),
        (["sample", "--out", "a.jpg"], "a sheet is written as PNG"),
        (["sample", "--json", "--scale", "2"], "--scale 2 is for a file"),
        (["complete", "one.png", "--rows", "4", "--out", "a.png"], "rows 4: the model draws pictures with 4 rows"),
        (["complete", "one.png", "--rows", "1", "--pixels", "2", "--out", "a.png"], "which of them are given?"),
        (["complete", "nothing.png", "--out", "a.png"], "nothing.png: No such file"),
        (["complete", "run.yaml", "--out", "a.png"], "not a picture"),
        (["complete", "wide.png", "--out", "a.png"], "wide.png: the picture is uint8"),
        (["inspect", "a text"], "reads pictures"),
        (["generate", "a text"], "it is a painter, and only a language model writes on"),
    ],
)
def test_what_can_not_be_done_is_refused(folder: Path, words: list[str], reason: str) -> None:
    (folder / "wide.png").write_bytes(encode_png(np.zeros((4, 9, 1), np.uint8)))
    verb, *others = words
    files = ("one.png", "wide.png", "nothing.png", "run.yaml")
    done = ask(folder, verb, *(str(folder / word) if word in files else word for word in others))
    assert done.returncode != 0
    assert reason in " ".join(done.stderr.split()), done.stderr
    assert "Traceback" not in done.stderr


def test_other_verbs_serve_its_run(folder: Path) -> None:
    run = str(folder / "run")
    with patch("regard.runs.plan.SECONDS", 0.3):
        assert regard("plan", str(folder / "run.yaml")).returncode == 0
    kept = json.loads(regard("eval", run, "--json").stdout)
    given = json.loads(regard("eval", run, "--data", str(folder / "valid.npy"), "--json").stdout)
    assert kept == given and kept["pictures"] == 20
    page = folder / "results.md"
    assert regard("eval", run, "--record", str(page)).returncode == 0
    assert "the file's own" in page.read_text() and "s-curve" in page.read_text()
    assert regard("verify", run, "--steps", "3").returncode == 0
    assert regard("show", run).returncode == 0
    assert regard("report", run, "--out", str(folder / "report.html")).returncode == 0
    assert regard("resume", run, "train.steps=9").returncode == 0
    assert regard("runs", str(folder)).returncode == 0
