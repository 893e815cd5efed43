"""Verbs that bring checkpoints in and send them out."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import typer

from regard.cli.words import JSON, RUN, app, hint


@app.command(name="import")
def bring(
    folder: Annotated[
        str, typer.Argument(help="A folder with config.json and safetensors; hf:owner/name downloads one first.")
    ],
    out: Annotated[Path | None, typer.Option(help="Keep it as a run there.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Compare its outputs with what transformers gives.")] = False,
    as_json: JSON = False,
) -> None:
    """Read a checkpoint in Hugging Face layout: every name, shape and number, without running anything in it."""
    from regard.exchange import bring as read_folder

    found = read_folder(folder, out, check)
    if as_json:
        print(json.dumps(vars(found)))
        return
    print(f"model        {found.type}, {found.parameters:,} parameters, {found.dtype}")
    if found.unused:
        print(f"unused       {', '.join(found.unused)}")
    if found.largest_difference is not None:
        print(f"difference   {found.largest_difference:.2g} at most, from transformers on random tokens with pads")
    if found.run is not None:
        print(f"run          {found.run}")
    hint(f"regard import {quote(str(found.folder))} --check" if not check else f"regard show {found.family}")


@app.command()
def export(
    run: RUN,
    folder: Annotated[Path, typer.Argument(help="Where it goes: a new folder; for onnx a new file.")],
    to: Annotated[
        Literal["hf", "ctranslate2", "onnx"],
        typer.Option(help="hf: for transformers and its kin; onnx: encoders and classifiers."),
    ] = "hf",
    as_json: JSON = False,
) -> None:
    """Write a model for others: in Hugging Face layout with tokenizer and settings, for CTranslate2, as ONNX."""
    from regard.exchange import send

    written = [str(path) for path in send(run, to, folder)]
    print(json.dumps({"to": to, "files": written}) if as_json else "\n".join(written))
    if to == "hf":
        hint(f"regard import {quote(str(folder))} --check")
