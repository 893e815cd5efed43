"""A program that walks at random over verbs, among files of others, and is killed at random: run by test_walk.

`python -m tests.walking FOLDER ACTIONS SEED`. Each action is a child, forked so that it costs no start. After every
one, all files that aren't ours are compared to the byte. What was found goes to standard output as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import yaml

from regard.cli import run
from regard.errors import RegardError
from tests.train.small import MODELS, document

STATUSES = {0, 1, 2, 3, 4, 5, 6, 7}
# names of others; some are near to ours
NAMES = ["notes.txt", "train.en", "data.json.bak", "latest.tmp-x", "mine.tmp-12", "step-x", "README.md", "plan é.txt"]
FOLDERS = ["", "data", "checkpoints", "average", "start", "tensorboard", "novel", "checkpoints/step-4", "deep/er"]
PLACES = ["one", "two words", "me@home", "demo", "demo/transformer", "exp", "kept", "hf"]


class Walk:
    """Places that verbs write to, and the files of others among them."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.chance = root, random.Random(seed)
        self.others: dict[Path, bytes] = {}
        self.done: dict[str, int] = {}
        self.killed = 0

    def scatter(self) -> None:
        """One more file of somebody else's, somewhere."""
        place = self.root / self.chance.choice(PLACES) / self.chance.choice(FOLDERS)
        path = place / self.chance.choice(NAMES)
        if path.exists() or any(part.is_file() for part in path.parents):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.chance.randbytes(self.chance.randrange(50)))
        self.others[path] = path.read_bytes()

    def tidy(self) -> None:
        """Their owner takes all files out of a place, so that others than the crowded ones are visited."""
        place = self.root / self.chance.choice(PLACES)
        for path in [path for path in self.others if path.is_relative_to(place)]:
            path.unlink()
            del self.others[path]
        for path in sorted(place.rglob("*"), reverse=True):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()

    def words(self) -> list[str]:
        """A verb, and a place that may or may not be fit for it."""
        chance, root = self.chance, self.root
        runs = [name for name in PLACES if (root / name / "run.yaml").exists()]
        place, other = (str(root / chance.choice(PLACES)) for _ in range(2))
        there = str(root / chance.choice(runs)) if runs and chance.random() < 0.8 else place
        config = str(root / "config.yaml")
        verbs: list[list[str]] = [
            ["train", config, f"out={place}"],
            ["train", config, f"out={place}", f"start={there}", "model=null", "train.adapt=lora"],
            [
                "train",
                config,
                f"out={place}",
                f"data={other}/data",
                "corpus={kind: files, train: {kind: documents, path: x}}",
            ],
            ["train", config, f"out={there}", "--force"],
            ["rm", place, "--yes"],
            ["resume", there],
            ["resume", there, f"train.steps={chance.randrange(5, 40)}"],
            ["resume", there, chance.choice(["model.width=32", "seed=3", "train.ema=0.9", "corpus.train=5", "x=1"])],
            ["average", there, "--last", "2"],
            ["eval", there, "--out", f"{other}/translations.txt", "--record", f"{root}/results.md"],
            ["report", there, "--samples", "1", "--out", f"{other}/report.html"],
            ["import", place, "--out", other],
            ["export", there, other],
            ["embed", there, "--file", str(root / "config.yaml"), "--index", f"{other}/index"],
            ["verify", there, "--steps", "2"],
            ["demo", "--out", str(root / "demo"), "--tokens", "1000"],
        ]
        return verbs[0] if chance.random() < 0.25 else chance.choice(verbs)

    def act(self) -> None:
        words, killing = self.words(), self.chance.random() < 0.6
        log = self.root / "stderr"
        child = os.fork()
        if not child:
            _child(words, log)
        limit = self.chance.random() * 1.5 if killing else 120.0
        status, deadline = None, time.monotonic() + limit
        while status is None:
            found, code = os.waitpid(child, os.WNOHANG)
            status = code if found else None
            if status is None and time.monotonic() > deadline:
                assert killing, f"{words} takes too long"
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
            time.sleep(0.005)
        self.killed += os.WIFSIGNALED(status)
        said = log.read_text(errors="replace")
        assert "Traceback" not in said, f"{words}: {said}"
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) in STATUSES, f"{words}: {status} {said}"
        self.done[words[0]] = self.done.get(words[0], 0) + (status == 0)

    def check(self) -> None:
        for path, content in self.others.items():
            assert path.is_file() and path.read_bytes() == content, f"{path} isn't what it was"


def _child(words: list[str], log: Path) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.argv = ["regard", *words]
    code = 0
    try:
        run()
    except SystemExit as stop:
        code = int(stop.code or 0)
    except RegardError:
        code = 99  # the program itself tells these
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 98
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def walk(root: Path, actions: int, seed: int) -> dict[str, Any]:
    found = Walk(root, seed)
    tree = document(root / "unused", "train.save=2", "train.evaluate=0", "train.steps=6").tree
    (root / "config.yaml").write_text(yaml.safe_dump({**tree, "model": MODELS["transformer"]}))
    for _ in range(actions):
        if found.chance.random() < 0.3:
            found.scatter()
        if found.chance.random() < 0.2:
            found.tidy()
        found.act()
        found.check()
    return {"killed": found.killed, "others": len(found.others), "done": found.done}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(walk(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
