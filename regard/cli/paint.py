"""The verbs that draw: new pictures, and pictures whose first part is given."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import JSON, PRECISION, RUN, verb
from regard.cli.help import may_color
from regard.cli.pictures import FIT, choose_fit
from regard.cli.progress import ProgressMeter
from regard.errors import SpecError
from regard.host.machine import give_way, keep_memory
from regard.host.output import check_file, put

if TYPE_CHECKING:
    from regard.data.canvas import Picture
    from regard.decode.painter import Drawing, Painter

MOST = 4096  # pictures of a sheet
ACROSS = 8  # pictures of a row, where nobody says how many
DULL = 96  # what isn't given of a picture

OUT = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The PNG file to write the sheet to. [drawn in the terminal]")
]
TEMPERATURE = Annotated[
    float, typer.Option(metavar="X", help="Below 1 is safer, above 1 wilder; 0 takes the likeliest.", min=0)
]
SEED = Annotated[int, typer.Option(metavar="N", help="The same seed draws the same pictures.", min=0)]
SCALE = Annotated[
    int | None,
    typer.Option(metavar="N", help="A pixel is a square with sides of N. [as fits 800 pixels]", min=1, max=64),
]


@verb("Ask a model")
@give_way()
def sample(
    run: RUN,
    grid: Annotated[str, typer.Option(metavar="ROWSxCOLUMNS", help="The number of pictures, as rows and columns.")] = (
        "8x8"
    ),
    out: OUT = None,
    temperature: TEMPERATURE = 1.0,
    seed: SEED = 0,
    scale: SCALE = None,
    precision: PRECISION = None,
    as_json: JSON = False,
) -> None:
    """Draw new pictures, pixel by pixel, with a model that learned pixels."""
    rows, columns = read_grid(grid)
    place = SheetPlace(out, scale, as_json)
    place.check()
    painter = load_painter(run, precision)
    place.insist_on_room(painter, columns)
    with ProgressMeter().watch("drawing pixels", rows * columns * painter.coder.length) as advance:
        drawn = painter.sample(rows * columns, temperature, seed, advance=advance)
    place.show([drawing.picture for drawing in drawn], columns, drawn)


@verb("Ask a model")
@give_way()
def complete(
    run: RUN,
    picture: Annotated[Path, typer.Argument(metavar="PICTURE", help="A picture: PNG, JPEG, WebP or .npy.")],
    rows: Annotated[
        int | None, typer.Option(metavar="N", help="The number of rows that are given. [half of them]", min=0)
    ] = None,
    pixels: Annotated[
        int | None,
        typer.Option(metavar="N", help="The number of pixels that are given, the first of the model's order.", min=0),
    ] = None,
    count: Annotated[int, typer.Option(metavar="N", help="The number of completions.", min=1, max=MOST)] = 4,
    fit: FIT = None,
    out: OUT = None,
    temperature: TEMPERATURE = 1.0,
    seed: SEED = 0,
    scale: SCALE = None,
    precision: PRECISION = None,
    as_json: JSON = False,
) -> None:
    """Draw the rest of a picture whose first rows are given, several times.

    The sheet begins with what was given; what wasn't is grey there.
    """
    place = SheetPlace(out, scale, as_json)
    place.check()
    painter = load_painter(run, precision)
    painter.fit = choose_fit(fit) or painter.fit
    whole = painter.read(picture)
    given = painter.count_given(rows, pixels)
    columns = min(ACROSS, count + 1)
    place.insist_on_room(painter, columns)
    with ProgressMeter().watch("drawing pixels", count * (painter.coder.length - given)) as advance:
        drawn = painter.complete(
            whole, rows, pixels=pixels, count=count, temperature=temperature, seed=seed, advance=advance
        )
    first = drawn[0].picture.reshape(-1).copy()
    first[painter.coder.places[given:]] = DULL
    place.show([first.reshape(whole.shape), *(drawing.picture for drawing in drawn)], columns, drawn)


def load_painter(run: str, precision: str | None) -> Painter:
    from regard.decode.painter import Painter
    from regard.runs.load import load_as

    keep_memory()
    return load_as(run, Painter, "only one that learned pixels draws pictures", precision)


def read_grid(words: str) -> tuple[int, int]:
    """Rows and columns, as they are typed: 8x8."""
    found = re.fullmatch(r"([1-9]\d{0,3})[x×]([1-9]\d{0,3})", words.strip().lower())
    rows, columns = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 0 < rows * columns <= MOST:
        raise SpecError(f"--grid {words}: it is rows and columns, {MOST:,} pictures at most", "--grid 8x8")
    return rows, columns


@dataclass(frozen=True)
class SheetPlace:
    """Where a sheet goes: a file, or the terminal; or pictures as data."""

    out: Path | None
    scale: int | None
    as_json: bool

    def check(self) -> None:
        """Tell what can't be written before anything is drawn."""
        if self.out is not None:
            if self.out.suffix.lower() != ".png":
                raise SpecError(f"--out {self.out}: a sheet is written as PNG", f"--out {self.out.with_suffix('.png')}")
            check_file(self.out)
        elif self.scale is not None:
            raise SpecError(f"--scale {self.scale} is for a file", "--out sheet.png")
        elif not self.as_json and not sys.stdout.isatty():
            raise SpecError("pictures can't be drawn here: standard output is no terminal", "--out sheet.png")

    def insist_on_room(self, painter: Painter, columns: int) -> None:
        """Refuse what is wider than the terminal, if it is drawn there."""
        if self.out is not None or self.as_json:
            return
        width, there = painter.coder.width + 1, shutil.get_terminal_size().columns
        if columns * width - 1 > there:
            most = (there + 1) // width
            fewer = f", or {most} pictures side by side" if most else ""
            raise SpecError(
                f"{columns} pictures side by side take {columns * width - 1} columns, and the terminal has {there}",
                f"--out sheet.png{fewer}",
            )

    def show(self, pictures: Sequence[Picture], columns: int, drawn: Sequence[Drawing]) -> None:
        """Write or draw the sheet; as JSON, an object for each drawing."""
        from regard.host.png import encode_png
        from regard.lens.sheet import arrange, choose_scale, draw_blocks

        if self.out is not None:
            scale = self.scale or choose_scale(pictures[0].shape, -(-len(pictures) // columns), columns)
            put(self.out, encode_png(arrange(pictures, columns, scale)))
        if self.as_json:
            for number, drawing in enumerate(drawn):
                facts = {"number": number, "nats": drawing.nats}
                there = {"picture": drawing.picture.tolist()} if self.out is None else {"out": str(self.out)}
                print(json.dumps(facts | there))
        else:
            print(self.out or draw_blocks(arrange(pictures, columns), may_color()))
