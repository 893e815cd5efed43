"""All analyses by name, on a model that attends and on one that remembers."""

from __future__ import annotations

import json

import pytest

from regard.errors import InputError
from regard.lens.analysis import ANALYSES, analyse
from tests.lens.texts import SOURCE, build, look_at

REMEMBERS = {"through-time", "jacobians", "gates"}


@pytest.mark.parametrize("name", ANALYSES)
def test_each_analysis_gives_plain_data_or_says_why_not(name: str) -> None:
    attends, remembers = look_at(build("transformer-tiny", depth=1, heads=2), source=SOURCE), look_at(build("lstm"))
    assert ANALYSES[name].about
    suits, other = (remembers, attends) if name in REMEMBERS else (attends, remembers)
    found = analyse(suits, name).as_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    if name in ("gradient-input", "integrated-gradients"):
        assert analyse(other, name).as_json()["tokens"] == ["w3", "w1", "w4", "w1", "w5", "w9"]
    else:
        with pytest.raises(InputError):
            analyse(other, name)


def test_an_unknown_analysis_is_answered_with_those_that_are() -> None:
    with pytest.raises(InputError, match=r"there is no analysis 'attention'(.|\n)*rollout"):
        analyse(look_at(build("lstm")), "attention")


def test_heads_are_described_as_the_viewer_has_them() -> None:
    look = look_at(build("transformer-tiny", depth=1, heads=2), source=SOURCE)
    heads = analyse(look, "heads").as_json()["heads"]
    place = look.maps()[-1]
    assert list(heads) == [each.name for each in look.maps()]
    drawn = look.figure().data["maps"][-1]["summary"]  # with what each head is worth beside
    assert heads[place.name] == [{name: told[name] for name in heads[place.name][0]} for told in drawn]
