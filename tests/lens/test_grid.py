"""The grid as a reader sees it: what stands under what, and how bright it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from rich.cells import cell_len, chop_cells

from regard.errors import InputError
from regard.lens.grid import LEVELS, by_word, grid, labels, words

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
SHADES = "·░▒▓█"


def peaks(rows: int, columns: int, places: Sequence[tuple[int, int]] = ()) -> list[list[float]]:
    """Weights that are zero but for a 1 at each place."""
    return [[float((row, column) in places) for column in range(columns)] for row in range(rows)]


def at(line: str, place: int) -> str:
    """The character that a terminal shows at a place."""
    seen = 0
    for sign in line:
        seen += cell_len(sign)
        if seen > place:
            return sign
    return " "


def below(text: str, label: str, count: int) -> list[str]:
    """What stands under the corner of a label, in the last rows before the legend."""
    lines = text.split("\n")
    corner = re.compile(rf"┌(?= {label}( |$))|(?<= {label} )┐|(?<=^{label} )┐")
    ((header, found),) = [(line, match) for line in lines if (match := corner.search(line))]
    place = cell_len(header[: found.start()])
    end = len(lines) - 2
    assert all(at(line, place) == "│" for line in lines[lines.index(header) + 1 : end - count])
    return [at(line, place) for line in lines[end - count : end]]


def bodies(text: str, count: int) -> list[str]:
    """The rows of a grid that isn't folded."""
    return text.split("\n")[-2 - count : -2]


@pytest.mark.parametrize("columns", [1, 2, 8, 12, 13, 24, 25, 40])
def test_a_peak_stands_under_its_source_and_beside_its_target(columns: int) -> None:
    tokens = [f"source{n}" for n in range(columns)]
    for column in range(columns):
        text = grid(tokens, ["one", "two", "three"], peaks(3, columns, [(1, column)]), color=False)
        assert below(text, f"source{column}", 3) == ["·", "█", "·"]
        assert [line.split()[0] for line in bodies(text, 3)] == ["one", "two", "three"]
        assert [("█" in line) for line in bodies(text, 3)] == [False, True, False]


@pytest.mark.parametrize("columns", [3, 25])
def test_every_column_is_full_from_top_to_bottom(columns: int) -> None:
    tokens = ["▁a", "▁incomprehensibility", "▁日本語"] * columns
    text = grid(tokens[:columns], ["▁naïve", "▁猫", "s"], [[1.0] * columns] * 3, color=False)
    rows = bodies(text, 3)
    assert len({cell_len(row) for row in rows}) == 1
    assert len({cell_len(row[: row.index("█")]) for row in rows}) == 1
    assert [row.count("█") for row in rows] == [rows[0].count("█")] * 3


@pytest.mark.parametrize("columns", [1, 8, 25, 30, 60, 150])
@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_of_the_grid_is_wider_than_asked(columns: int, width: int) -> None:
    tokens = [f"▁word{n}" for n in range(columns)]
    text = grid(tokens, ["▁incomprehensibilities", "s"], peaks(2, columns), color=False, width=width)
    assert max(map(cell_len, text.split("\n")[:-1])) <= width
    assert all(f"word{n} ┐" in text or f"┌ word{n}" in text for n in range(columns))


def test_cells_shrink_before_the_grid_is_folded() -> None:
    sizes = {}
    for columns in (8, 30, 60, 70, 150):
        text = grid(["a"] * columns, ["row"], [[1.0] * columns], color=False)
        sizes[columns] = [line.count("█") for line in text.split("\n") if line.startswith("row")]
    assert sizes == {8: [24], 30: [60], 60: [60], 70: [70], 150: [50, 50, 50]}


def test_a_folded_grid_goes_on_where_it_stopped() -> None:
    tokens = [f"s{n}" for n in range(150)]
    text = grid(tokens, ["row"], peaks(1, 150, [(0, 149)]), color=False)
    *before, last = (line for line in text.split("\n") if line.lstrip().startswith("row"))
    assert before and not any("█" in line for line in before)
    assert last.endswith("·█")
    assert sum(line.count("·") for line in [*before, last]) == 149


@pytest.mark.parametrize(
    ("weight", "shade"), [(0, "·"), (0.019, "·"), (0.02, "░"), (0.1, "▒"), (0.31, "▓"), (0.6, "█"), (1.0000001, "█")]
)
def test_a_larger_weight_has_a_fuller_shade(weight: float, shade: str) -> None:
    row = bodies(grid(["source"], ["target"], [[weight]], color=False), 1)[0]
    assert set(row.removeprefix("target")) - {" "} == {shade}


def test_weights_that_differ_little_differ_in_color() -> None:
    def codes(weight: float) -> str:
        return bodies(grid(["source"], ["target"], [[weight]], color=True), 1)[0]

    assert len({codes(floor) for floor, _, _ in LEVELS}) == len(LEVELS)
    assert codes(0.5) != codes(0.35)


def test_colors_grow_lighter() -> None:
    def lightness(code: int) -> float:
        if code >= 232:
            return 8 + 10 * (code - 232)
        red, green, blue = ((0, 95, 135, 175, 215, 255)[(code - 16) // size % 6] for size in (36, 6, 1))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    shown = [lightness(code) for _, _, code in LEVELS]
    assert shown == sorted(set(shown))


@pytest.mark.parametrize("columns", [5, 25, 150])
def test_color_adds_escape_codes_and_nothing_else(columns: int) -> None:
    tokens, weights = [f"▁s{n}" for n in range(columns)], [[n / columns for n in range(columns)]]
    plain = grid(tokens, ["▁row"], weights, color=False, title="A title").split("\n")
    colored = grid(tokens, ["▁row"], weights, color=True, title="A title").split("\n")
    assert not any("\x1b" in line for line in plain)
    assert [ESCAPE.sub("", line) for line in colored[:-1]] == plain[:-1]
    assert colored[-3].count("48;5;") == len(colored[-3].split("\x1b[0m")) - 1 > 0


def test_a_piece_brings_no_escape_codes_and_no_line_breaks() -> None:
    plain = grid(["▁a", "▁b"], ["▁c"], [[0, 1]], color=False)
    tricky = grid(["▁\x1b[31ma", "▁b\n"], ["▁\u202ec\t"], [[0, 1]], color=False)
    assert "\x1b" not in tricky
    assert "\u202e" not in tricky
    assert len(tricky.split("\n")) == len(plain.split("\n"))


def test_the_legend_names_every_shade_and_the_title_stands_first() -> None:
    lines = grid(["a"], ["b"], [[1.0]], color=False, title="Where it looks").split("\n")
    assert lines[0] == "Where it looks"
    assert [sign for sign in SHADES if sign not in lines[-1]] == []
    assert lines[-1].endswith("60")
    assert len(ESCAPE.findall(grid(["a"], ["b"], [[1.0]], color=True).split("\n")[-1])) == 2 * len(LEVELS)


@pytest.mark.parametrize(
    ("rows", "weights", "given"),
    [
        (2, [[0.5, 0.5]], "1 × 2"),
        (1, [[1.0]], "1 × 1"),
        (2, [[0.5, 0.5], [1.0]], "2 × 1 or 2"),
        (1, [], "0 × 0"),
    ],
)
def test_a_wrong_shape_is_told_with_both_shapes(rows: int, weights: list[list[float]], given: str) -> None:
    for draw in (lambda *what: grid(*what, color=False), by_word):
        with pytest.raises(InputError, match=re.escape(f"{given} don't fit tokens of shape {rows} × 2")):
            draw(["a", "b"], ["c", "d"][:rows], weights)


def test_nothing_and_no_number_are_refused() -> None:
    with pytest.raises(InputError, match="nothing to draw"):
        grid([], [], [], color=False)
    with pytest.raises(InputError, match="'▁b'"):
        grid(["▁a"], ["▁b"], [[float("nan")]], color=False)


def test_pieces_show_where_a_word_goes_on() -> None:
    assert labels(["▁the", "▁gre", "en", ".", "[EOS]"]) == ["the", "gre", "-en", ".", "[EOS]"]
    assert labels(["un", "##likely", "!"]) == ["un", "-likely", "!"]
    assert labels(["the", "green"]) == ["the", "green"]
    assert labels(["▁", "x", "\xa0"]) == ["▁", "-x", "-␣"]


@pytest.mark.parametrize(
    ("pieces", "merged"),
    [
        (["▁the", "▁gre", "en", "▁house", ".", "[EOS]"], ["the", "green", "house", ".", "[EOS]"]),
        (["▁l", "'", "hom", "me", "[EOS]"], ["l", "'", "homme", "[EOS]"]),
        (["▁«", "bon", "jour", "▁»", "!?"], ["«", "bonjour", "»", "!?"]),
        (["▁", "na", "ïve", "▁", "."], ["naïve", "."]),
        (["[BOS]", "a", "b", "▁c"], ["[BOS]", "ab", "c"]),
        (["▁it", "'s"], ["it's"]),
        (["un", "##like", "##ly", "so"], ["unlikely", "so"]),
        (["whole", "words", "."], ["whole", "words", "."]),
        (["▁x", "[UNK]", "y", "[PAD]", "[PAD]"], ["x[UNK]y", "[PAD]", "[PAD]"]),
    ],
)
def test_words_take_their_pieces_together(pieces: list[str], merged: list[str]) -> None:
    spans = words(pieces)
    assert [first for first, _ in spans] == [0, *(last for _, last in spans)][:-1]
    assert spans[-1][1] == len(pieces)
    assert by_word(pieces, ["▁x"], peaks(1, len(pieces)))[0] == merged


def test_no_pieces_are_no_words() -> None:
    assert words([]) == []


def test_words_add_what_sources_get_and_average_what_targets_give() -> None:
    columns, rows, weights = by_word(
        ["▁gre", "en", "▁house"], ["▁mai", "son", "▁verte"], [[0.1, 0.2, 0.7], [0.0, 0.1, 0.9], [0.5, 0.5, 0.0]]
    )
    assert (columns, rows) == (["green", "house"], ["maison", "verte"])
    assert weights[0] == pytest.approx([0.2, 0.8])
    assert weights[1] == pytest.approx([1.0, 0.0])
    assert "┌ green" in grid(columns, rows, weights, color=False)


def test_a_label_that_is_too_long_is_cut_and_says_so() -> None:
    text = grid(["▁" + "very" * 20], ["▁" + "猫" * 20], [[1.0]], color=False)
    row = bodies(text, 1)[0]
    assert "┌ veryveryveryver…" in text
    assert row.startswith("猫" * 7 + "… ")
    assert chop_cells(row, 15)[0] == "猫" * 7 + "…"
