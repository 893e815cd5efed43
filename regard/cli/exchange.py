"""Verbs that bring checkpoints in and send them out."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import JSON, RUN, hint, verb
from regard.cli.progress import ProgressMeter

if TYPE_CHECKING:
    from regard.hub.compare import Comparison

CHECK = Annotated[bool, typer.Option("--check", help="Compare outputs and texts with what transformers makes of it.")]


@verb("Bring in and send out", "import")
def bring(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="A folder with config.json and safetensors; hf:owner/name downloads one first."
        ),
    ],
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="Keep the model as a run in this folder.")] = None,
    check: CHECK = False,
    as_json: JSON = False,
) -> None:
    """Read a checkpoint in Hugging Face layout: every name, shape and number, without running anything in it."""
    from regard.runs.convert import bring as read_folder

    found = read_folder(folder, out, check, ProgressMeter())
    if as_json:
        print(json.dumps({**vars(found), **list_fields(found.checked), "checked": found.checked is not None}))
        return insist(found.checked, Path(found.folder))
    print(f"model        {found.type}, {found.parameters:,} parameters, {found.dtype}")
    if found.unused:
        print(f"unused       {', '.join(found.unused)}")
    show(found.checked)
    if found.run is not None:
        print(f"run          {found.run}")
    insist(found.checked, Path(found.folder))
    hint(f"regard import {quote(found.folder)} --check" if not check else f"regard show {found.family}")


@verb("Bring in and send out")
def export(
    run: RUN,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The new folder to write; for onnx, the new file.")],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="The format: hf (transformers and its kin), ctranslate2, onnx (encoders and classifiers), or regard; "
            "unless given hf, or regard with --precision.",
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(metavar="BITS", help="Keep the weights in regard's own format as fp32, fp16, bf16, int8 or int4."),
    ] = None,
    check: CHECK = False,
    as_json: JSON = False,
) -> None:
    """Write a model for others: in Hugging Face layout with tokenizer and settings, for CTranslate2, as ONNX.

    With --precision it is a copy for regard in fewer bits, which every verb that takes a run takes.
    """
    from regard.runs.convert import send

    sent = send(run, to, folder, check, ProgressMeter(), precision)
    if as_json:
        print(json.dumps({"to": sent.to, "files": sent.files, **list_fields(sent.checked)}))
        return insist(sent.checked, folder)
    print("\n".join(sent.files))
    show(sent.checked)
    insist(sent.checked, folder)
    if sent.next and not check:
        hint(sent.next)


def list_fields(checked: Comparison | None) -> dict[str, Any]:
    """A comparison as fields."""
    return {} if checked is None else asdict(checked)


def show(checked: Comparison | None) -> None:
    if checked is not None:
        print(f"difference   {checked.largest_difference:.2g} at most, from transformers on random tokens with pads")
        print(f"texts        {checked.texts} compared through both tokenizers and both models")


def insist(checked: Comparison | None, folder: Path) -> None:
    if checked is not None:
        checked.insist(folder)
