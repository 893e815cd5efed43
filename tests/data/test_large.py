"""A corpus larger than memory should be: making it ready and planning batches take no more for it."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from regard.data.corpora.english_french import pairs

MEASURED = """
import sys
from pathlib import Path
from regard.data.batches import BatchSpec
from regard.data.corpus import CorpusSpec
from regard.data.preparation import prepare
from regard.data.tokenizer import TokenizerSpec
from regard.tasks.translation import TranslationTaskSpec
from regard.host.machine import peak_memory

for name in sys.argv[1:]:
    folder = Path(name)
    train = {"kind": "text", "source": "train.en", "target": "train.fr"}
    corpus = CorpusSpec.parse({"kind": "files", "train": train, "split": {"validation": 0}})
    ready, _ = prepare(corpus, TranslationTaskSpec(), TokenizerSpec(vocabulary=2000), 10_000, folder, folder / "data")
    plan = BatchSpec(tokens=4096, longest=10_000).plan(ready.lengths("source", "target"), 1, 0)
    sentences = sum(len(rows) for rows in plan)
    print(len(ready), sentences, peak_memory())
"""


def write(folder: Path, megabytes: int) -> int:
    """Two files of so many megabytes together; lines of twenty sentences each."""
    folder.mkdir()
    known = [(pair.source, pair.target) for pair in islice(pairs("train"), 20_000)]
    lines = [tuple(" ".join(side) for side in zip(*known[n : n + 20], strict=True)) for n in range(0, len(known), 20)]
    size = sum(len(text.encode()) + 1 for line in lines for text in line)
    times = megabytes * 2**20 // size
    for side, name in enumerate(("train.en", "train.fr")):
        block = "".join(line[side] + "\n" for line in lines)
        with (folder / name).open("w") as file:
            for _ in range(times):
                file.write(block)
    return times * len(lines)


@pytest.mark.parametrize("megabytes", [pytest.param(2000, marks=pytest.mark.long)])
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, megabytes: int) -> None:
    counts = [write(tmp_path / "warm", megabytes // 10), write(tmp_path / "large", megabytes)]
    command = [sys.executable, "-c", MEASURED, str(tmp_path / "warm"), str(tmp_path / "large")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads("[" + line.replace(" ", ",") + "]") for line in done.stdout.splitlines()]
    assert [row[:2] for row in rows] == [[count, count] for count in counts]
    assert rows[1][2] - rows[0][2] <= 64 * 2**20, rows
