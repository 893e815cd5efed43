"""Hints: right, or none."""

from __future__ import annotations

import pytest

from regard.core.hint import nearest, slips, suggest
from regard.errors import SpecError
from regard.models import preset, presets


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("transformer", "; which one? transformer-base, transformer-big, transformer-tiny"),
        ("bert", "; which one? bert-base, bert-large, bert-tiny"),
        ("Transformer-Tiny", "; did you mean 'transformer-tiny'?"),
        ("gpt-2", "; did you mean 'gpt2'?"),
        ("llama2-8b", "; known: "),  # another size is another model
        ("llama3-7b", "; known: "),
        ("gpt4", "; known: "),
        ("reformer", "; known: "),
    ],
)
def test_a_preset_that_is_not_there_is_never_answered_with_another(word: str, found: str) -> None:
    assert suggest(word, presets()).startswith(found)
    with pytest.raises(SpecError, match="no preset is called"):
        preset(word)


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [("heads", "haeds", 1), ("width", "width", 0), ("rate", "rat", 1), ("steps", "spets", 2), ("ab", "ba", 1)],
)
def test_slips_are_counted_with_swaps_as_one(one: str, other: str, count: int) -> None:
    assert slips(one, other) == slips(other, one) == count


def test_two_words_as_near_are_none() -> None:
    assert nearest("patt", ["part", "path"]) is None
    assert nearest("depht", ["depth", "width"]) == "depth"
    assert nearest("x" * 10**6, ["depth"]) is None
