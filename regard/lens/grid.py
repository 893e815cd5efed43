"""Attention in a terminal: one row for each target token, one column for each source token, darker or brighter cells.

The source tokens stand above as a staircase, so that every one reads from left to right however narrow its column is;
from a dozen on, they stand as an arch, which is half as high. Color adds escape codes and changes no character, so
what is copied out of a terminal keeps its shades.
"""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from regard.errors import InputError

START = "▁"  # stands before a piece that begins a word
ALONE = ("[PAD]", "[BOS]", "[EOS]")
CELLS = (3, 2, 1)  # widths of a cell, the first that fits is taken
STAIRS = 12  # columns up to which the header is a staircase
LONGEST = 16  # of a label; what is longer is cut

# the least weight, its shade, and its color among a terminal's 256: lightness grows in even steps, as in magma
LEVELS = (
    (0.0, "·", 233),
    (0.02, "░", 54),
    (0.05, "░", 90),
    (0.1, "▒", 126),
    (0.2, "▒", 161),
    (0.3, "▓", 203),
    (0.45, "▓", 209),
    (0.6, "█", 216),
    (0.8, "█", 230),
)
DOT = 239  # color of the dots in empty cells
FLOORS = tuple(floor for floor, _, _ in LEVELS)


def grid(
    columns: Sequence[str],
    rows: Sequence[str],
    weights: Sequence[Sequence[float]],
    *,
    color: bool,
    title: str = "",
    width: int = 80,
) -> str:
    """Draw weights, one list for each row, between pieces or words; a source too long for `width` is folded."""
    check(columns, rows, weights)
    side = [_shorten(label, width) for label in labels(rows)]
    top = [_shorten(label, width) for label in labels(columns)]
    lines = [f"\x1b[1m{title}\x1b[0m" if color else title, ""] if title else []
    for first, layout in _layouts(top, side, width):
        lines += layout.header()
        for label, row in zip(side, weights, strict=True):
            shown = row[first : first + len(layout.labels)]
            cells = "".join(_cell(weight, layout.cell, color) for weight in shown)
            lines.append(" " * (layout.gutter - 1 - cell_len(label)) + f"{label} {cells}")
        lines.append("")
    return "\n".join([*lines, _legend(color)])


def labels(pieces: Sequence[str]) -> list[str]:
    """Pieces as they are shown: without the mark of a word's beginning, and with a hyphen where one goes on."""
    shown = []
    for piece, going_on in zip(pieces, _going_on(pieces), strict=True):
        text = piece.removeprefix(START).removeprefix("##" if going_on else "") or piece
        text = "".join("␣" if sign.isspace() else sign if sign.isprintable() else "�" for sign in text)
        shown.append(f"-{text}" if going_on and not is_punctuation(piece) else text)
    return shown


def words(pieces: Sequence[str], special: Sequence[bool] = (), spaced: bool = False) -> list[tuple[int, int]]:
    """The span of each word: its first piece, and one past its last. Punctuation and special tokens stand alone.

    `special`: which of them are no text; without it, our own special tokens are known by their names. `spaced`: a
    beginning is marked by ▁ where there is a space, also if there is none in these.
    """
    spans: list[tuple[int, int]] = []
    for n, going_on in enumerate(_going_on(pieces, spaced)):
        if going_on and not (special and (special[n] or special[n - 1])):
            spans[-1] = (spans[-1][0], n + 1)
        else:
            spans.append((n, n + 1))
    return spans


def by_word(
    columns: Sequence[str], rows: Sequence[str], weights: Sequence[Sequence[float]]
) -> tuple[list[str], list[str], list[list[float]]]:
    """Pieces merged to words: what a word's source pieces get is added, what its target pieces give is averaged.

    So a row still sums to 1.
    """
    check(columns, rows, weights)
    across, down = words(columns), words(rows)
    merged = [
        [sum(sum(row[left:right]) for row in weights[top:bottom]) / (bottom - top) for left, right in across]
        for top, bottom in down
    ]
    return join_pieces(columns, across), join_pieces(rows, down), merged


def check(columns: Sequence[str], rows: Sequence[str], weights: Sequence[Sequence[float]]) -> None:
    """Refuse weights that aren't one number for each row and column."""
    widths = sorted({len(row) for row in weights})
    if len(weights) != len(rows) or any(size != len(columns) for size in widths):
        given = f"{len(weights)} × {' or '.join(map(str, widths)) or 0}"
        raise InputError(f"weights of shape {given} don't fit tokens of shape {len(rows)} × {len(columns)}")
    if not rows or not columns:
        raise InputError(f"there is nothing to draw in a grid of shape {len(rows)} × {len(columns)}")
    for token, row in zip(rows, weights, strict=True):
        if not all(map(math.isfinite, row)):
            raise InputError(f"the weights of {token!r} aren't all finite numbers")


@dataclass
class GridLayout:
    """Where the columns stand, counted in characters of a terminal from its left edge."""

    labels: list[str]
    side: int  # width of the widest row's label
    cell: int  # width of a cell

    @property
    def turn(self) -> int:
        """The first column whose label goes to the right; those before it go to the left."""
        return 0 if len(self.labels) <= STAIRS else len(self.labels) // 2

    @property
    def gutter(self) -> int:
        """What is left of the cells: room for the rows' labels, and for those above that go to the left."""
        reach = [cell_len(label) + 1 - self._stem(n) for n, label in enumerate(self.labels[: self.turn])]
        return max([self.side + 1, *reach])

    @property
    def width(self) -> int:
        reach = [self._stem(n) + 2 + cell_len(self.labels[n]) for n in range(self.turn, len(self.labels))]
        return self.gutter + max([self.cell * len(self.labels), *reach])

    def header(self) -> list[str]:
        """Each label on a line of its own half, with a stem down to its column."""
        gutter, count, lines = self.gutter, len(self.labels), []
        for level in range(count - self.turn, 0, -1):
            line = ""
            for n, label in enumerate(self.labels):
                height = n + 1 if n < self.turn else count - n
                if height < level:
                    continue
                corner = f"{label} ┐" if n < self.turn else f"┌ {label}"
                mark = corner if height == level else "│"
                first = gutter + self._stem(n) - (cell_len(mark) - 1 if n < self.turn else 0)
                line += " " * (first - cell_len(line)) + mark
            lines.append(line)
        return lines

    def _stem(self, n: int) -> int:
        """The middle of a column, from the first cell."""
        return self.cell * n + (self.cell - 1) // 2


def _layouts(top: list[str], side: list[str], width: int) -> list[tuple[int, GridLayout]]:
    """The first column of each part, and its layout: in one part if cells of some width allow it."""
    gutter = max(map(cell_len, side))
    for cell in CELLS:
        whole = GridLayout(top, gutter, cell)
        if whole.width <= width:
            return [(0, whole)]
    for count in range(2, len(top)):
        size = math.ceil(len(top) / count)
        parts = [(first, GridLayout(top[first : first + size], gutter, 1)) for first in range(0, len(top), size)]
        if all(part.width <= width for _, part in parts):
            return parts
    return [(n, GridLayout([label], gutter, 1)) for n, label in enumerate(top)]  # narrower than any terminal


def _cell(weight: float, width: int, color: bool) -> str:
    _, shade, code = LEVELS[max(0, bisect_right(FLOORS, weight) - 1)]
    text = shade.center(width) if shade == "·" else shade * width
    # ink of the paper's color: the tile is even, and the shade is still there to be copied; dots guide the eye
    ink = DOT if shade == "·" else code
    return f"\x1b[38;5;{ink};48;5;{code}m{text}\x1b[0m" if color else text


def _legend(color: bool) -> str:
    seen: dict[str, str] = {}  # the first of each shade, or of each color
    for floor, shade, _ in LEVELS:
        tile = _cell(floor, 2, color)
        seen.setdefault(tile if color else shade, f"{tile} {100 * floor:.0f}")
    return "weight in %, from  " + "  ".join(seen.values())


def _shorten(label: str, width: int) -> str:
    most = max(2, min(LONGEST, width // 4))
    return label if cell_len(label) <= most else set_cell_size(label, most - 1).rstrip() + "…"


def join_pieces(pieces: Sequence[str], spans: list[tuple[int, int]]) -> list[str]:
    """Words without the marks of their pieces."""
    texts = []
    for first, last in spans:
        rest = [piece.removeprefix("##") for piece in pieces[first + 1 : last]]
        texts.append("".join([pieces[first].removeprefix(START), *rest]) or START)
    return texts


def _going_on(pieces: Sequence[str], spaced: bool = False) -> list[bool]:
    """Whether each piece goes on with the word before it.

    Without a single ▁, they are of a tokenizer that marks no beginnings: WordPiece marks the rest of a word by ##.
    """
    if not spaced and not any(piece.startswith(START) for piece in pieces):
        return [n > 0 and piece.startswith("##") for n, piece in enumerate(pieces)]
    found = [False] * len(pieces)
    for n in range(1, len(pieces)):
        before, piece = pieces[n - 1], pieces[n]
        if piece.startswith(START) or piece in ALONE or before in ALONE:
            continue
        if spaced and (piece[:1].isspace() or before[-1:].isspace()):  # a line ends
            continue
        # a bare ▁ takes whatever comes
        found[n] = before == START or not (is_punctuation(piece) or is_punctuation(before))
    return found


def is_punctuation(piece: str) -> bool:
    """Whether a piece has signs and no letters."""
    text = piece.removeprefix(START)
    return bool(text) and all(unicodedata.category(sign).startswith("P") for sign in text)
