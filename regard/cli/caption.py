"""The verb that captions: pictures in, sentences out in the same order."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import JSON, PRECISION, RUN, hint, search_settings, verb
from regard.cli.inspect import check_look
from regard.cli.pictures import FIT, WINDOW, PictureFile, choose_fit, choose_pictures
from regard.cli.texts import Manner, answer_each
from regard.errors import SpecError
from regard.host.machine import give_way, keep_memory

if TYPE_CHECKING:
    from regard.data.picture import Fit
    from regard.decode.captioner import Caption, Captioner


@verb("Ask a model")
@give_way()
def caption(
    run: RUN,
    pictures: Annotated[
        list[str] | None,
        typer.Argument(metavar="PICTURE", help="A picture or a map of features, a folder, or an archive of them."),
    ] = None,
    beam: Annotated[
        int | None, typer.Option(metavar="N", help="The number of hypotheses a picture; 1 is greedy. [5]")
    ] = None,
    nbest: Annotated[int, typer.Option(metavar="N", help="The number of captions of each picture.")] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="SETTING",
            help="A setting of the search: sample=true, top_p=0.9, …; `regard settings search` tells all.",
        ),
    ] = None,
    fit: FIT = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write where each word looked, for one picture: .html, .json, .npz, …"),
    ] = None,
    precision: PRECISION = None,
    as_json: JSON = False,
) -> None:
    """Say what is in pictures, in their order: files, whole folders and archives too.

    A picture that can't be read is told, and the exit status is 3 then.
    """
    source, how, way = choose_pictures(pictures), search_settings(beam, nbest, settings), choose_fit(fit)
    if out is not None:
        check_look(out)
        if not source.alone:
            raise SpecError(f"--out {out}: a look is at one picture", "one file")
    from regard.decode.captioner import Caption, Captioner
    from regard.runs.load import load_as

    keep_memory()
    captioner = load_as(run, Captioner, "only one that learned to caption captions", precision)
    captioner.settings(how)  # a mistake in the words is no picture's fault
    if out is not None:
        look_at_caption(captioner, Path(source.paths[0]), how, way, out)
    named = source.count() != 1  # which of several pictures a line is about
    cut = 0

    def ask(files: list[PictureFile]) -> list[Caption]:
        return captioner.caption([file.content for file in files], fit=way, **how)

    def show(file: PictureFile, found: Caption) -> None:
        nonlocal cut
        cut += found.cut is not None
        if as_json:
            print(json.dumps({"picture": file.place, **found.as_json()}, ensure_ascii=False))
            return
        name = f"{file.place}\t" if named else ""
        for each in (found, *found.alternatives):
            score = f"{each.score:.4f}\t" if found.alternatives else ""
            print(f"{name}{score}{each.text}")

    answer_each(source, "captioning", ask, show, Manner(as_json, "picture", Caption("", [], [], 0.0).as_json()), WINDOW)
    if out is not None and out.suffix.lower() == ".html":
        hint(f"open {out} in a browser")
    if cut:
        print(f"regard: {cut} captions were cut by a limit; --set max_tokens=N allows more", file=sys.stderr)


def look_at_caption(captioner: Captioner, path: Path, how: dict[str, Any], fit: Fit | None, out: Path) -> None:
    """Write what a picture's caption looked at, word by word."""
    captioner.fit = fit
    captioner.look(path, captioner.caption(path, **how).text).save(out)
