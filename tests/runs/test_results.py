"""The page of results: a row a measurement, measured again in its place, the rest untouched."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import DataError
from regard.runs.results import record


def test_a_row_is_put_in_and_measured_again_in_its_place(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    record(page, "Speed", {"model": "a", "tokens/s": "1"})
    record(page, "Speed", {"model": "ab", "tokens/s": "2"})
    record(page, "Quality", {"model": "a", "BLEU": "3", "signature": "x|y"})
    record(page, "Speed", {"model": "a", "tokens/s": "4"})
    text = page.read_text()
    assert text.startswith("# Results\n")
    assert text.count("| a |") == 2
    speed = text.index("## Speed\n| model | tokens/s |\n| --- | --- |\n| a | 4 |\n| ab | 2 |\n\n## Quality")
    assert text.index("## Quality\n| model | BLEU | signature |\n| --- | --- | --- |\n| a | 3 | x\\|y |\n") > speed


def test_words_around_the_table_stay(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    top = "# Ours\nBy hand.\n\n## Speed\nHow it was done.\n| model | n |\n| --- | --- |\n| a | 1 |\n"
    page.write_text(top + "\n## Last\nx\n")
    record(page, "Speed", {"model": "b", "n": "2"})
    assert page.read_text() == top + "| b | 2 |\n\n## Last\nx\n"


def test_another_table_is_not_written_over(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    record(page, "Speed", {"model": "a", "n": "1"})
    with pytest.raises(DataError, match="other columns"):
        record(page, "Speed", {"model": "a", "m": "1"})
    assert "| a | 1 |" in page.read_text()
