"""The digits of scikit-learn, as far as it is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from regard.data.corpora.digits import Digits, load_digits
from regard.data.log import Log
from regard.data.sample import FormSpec
from regard.errors import MissingPackage


def test_without_scikit_learn_the_error_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    load_digits.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingPackage, match=r"scikit-learn.*\n.*pip install 'regard\[digits\]'"):
        list(Digits().samples("images", "train", Path(), Log()))


def test_every_digit_stands_in_one_split() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    log, found = Log(), list[int]()
    given = datasets.load_digits()
    for split, count in (("train", 1242), ("validation", 261), ("test", 294)):
        samples = list(Digits().samples("images", split, Path(), log))  # type: ignore[arg-type]
        assert len(samples) == count and len({sample["label"] for sample in samples}) == 10
        for sample in samples:
            assert not FormSpec.parse("images").find_fault(sample)
            number = int(sample["place"].removeprefix("digits:")) - 1
            assert sample["label"] == str(given.target[number])
            assert np.abs(sample["picture"][..., 0] * (16 / 255) - given.images[number]).max() < 0.04
            found.append(number)
    assert sorted(found) == list(range(1797)) and log.kept == 1797
    assert set(next(Digits().samples("pictures", "test", Path(), log))) == {"picture", "place"}
