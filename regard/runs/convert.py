"""Bringing checkpoints in and sending them out, as the command line does it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.data.lexicon import Lexicon
from regard.errors import RegardError
from regard.host.files import write
from regard.hub.compare import Comparison, compare
from regard.hub.ctranslate2 import convert
from regard.hub.fetch import fetch
from regard.hub.load import Imported, import_folder
from regard.hub.onnx import write_onnx
from regard.hub.outgoing import beside
from regard.hub.save import export_folder, match_model
from regard.runs.load import load_bundle
from regard.runs.resolve import IMPORT
from regard.train.checkpoint import Store

Format = Literal["hf", "ctranslate2", "onnx"]


@dataclass
class Import:
    """What a folder holds."""

    folder: str
    type: str  # as its config.json calls it
    family: str
    parameters: int
    dtype: str
    unused: list[str]  # tensors of heads that this model doesn't have
    checked: Comparison | None = None  # how it compares with what transformers makes of it
    run: str | None = None  # where it was kept


def bring(noun: str, out: Path | None, check: bool) -> Import:
    """Read a folder in Hugging Face layout, downloaded first if wanted, and compare it with transformers if wanted."""
    folder = Path(noun)
    if noun.startswith("hf:"):
        name = noun.removeprefix("hf:")
        folder = fetch(name, Path(name.rpartition("/")[2]))
    arrived = import_folder(folder)
    model, plan = arrived.model, arrived.plan
    facts = Import(
        str(folder),
        plan.kind,
        plan.settings.kind,
        model.parameter_count(),
        str(next(model.parameters()).dtype).removeprefix("torch."),
        arrived.unused,
    )
    if check:
        facts.checked = compare(folder, load_bundle(str(folder), "cpu"))
    if out is not None:
        facts.run = str(keep(arrived, out))
    return facts


def keep(arrived: Imported, out: Path) -> Path:
    """A run that holds a model from elsewhere, so that every verb that takes a run takes it."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RegardError(f"{out}: is there already", "--out ANOTHER")
    plan = arrived.plan
    files: dict[str, bytes] = {}
    if arrived.tokenizers is not None:
        files = Lexicon(arrived.tokenizers, arrived.labels, foreign=True).files()
    files |= arrived.origin.entries()
    settings = plan.settings.model_dump(mode="json")
    about = {"type": plan.kind, "class": plan.architecture, "settings": settings, "config": dict(plan.config)}
    data = {"spec": plan.spec.model_dump(mode="json"), "state": {"moment": {"ranking": []}, "import": about}}
    Store(out / "checkpoints").save(0, {"model": arrived.model.state_dict()}, data, files)
    write(out / IMPORT, json.dumps(about, indent=1).encode())
    return out


@dataclass
class Export:
    """What was written for others."""

    to: Format
    files: list[str]
    checked: Comparison | None = None


def send(noun: str, to: Format, folder: Path, check: bool = False) -> Export:
    """Write a model for others, and compare what was written with what transformers makes of it, if wanted."""
    if check and to != "hf":
        raise RegardError(f"--check compares with transformers, which doesn't read {to}", "--to hf")
    given = load_bundle(noun)
    if to == "onnx":
        write_onnx(given.model, folder)
        return Export(to, [str(folder)])
    if to == "ctranslate2":
        if given.lexicon is None:
            raise RegardError(f"{noun}: there is no tokenizer in it, and CTranslate2 wants the words")
        came = {} if given.origin is None else given.origin.terms()
        return Export(to, [str(path) for path in convert(given.model, *given.lexicon.tokenizers, folder, came)])
    if given.family is None:
        raise RegardError(f"{noun}: a model of one's own has no family, so no Hugging Face layout either")
    plan = match_model(given.model.spec, given.family, noun)
    paths = export_folder(plan, given.model, folder, beside(given, plan, noun))
    return Export(to, [str(path) for path in paths], compare(folder, given) if check else None)
