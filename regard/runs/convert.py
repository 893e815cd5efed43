"""Bringing checkpoints in and sending them out, as the command line does it."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from regard.core.model import Model
from regard.core.spec import choose_kind
from regard.errors import CheckpointError, RegardError
from regard.host.files import write
from regard.host.meter import SILENT, Meter
from regard.hub.compare import Comparison, compare
from regard.hub.fetch import fetch
from regard.hub.load import Imported, import_folder
from regard.hub.targets.target import TargetSpec
from regard.runs.load import describe_import, load_bundle
from regard.runs.precision import use_precision
from regard.runs.resolve import IMPORT
from regard.runs.uses import note_plugins
from regard.tasks.bundle import Bundle
from regard.train.checkpoint import Store


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


def bring(noun: str, out: Path | None, check: bool, meter: Meter = SILENT) -> Import:
    """Read a folder in Hugging Face layout, downloaded first if wanted, and compare it with transformers if wanted."""
    folder = Path(noun)
    if noun.startswith("hf:"):
        name = noun.removeprefix("hf:")
        folder = fetch(name, Path(name.rpartition("/")[2]))  # its library shows what is downloaded
    elif not folder.exists():
        name = noun if re.fullmatch(r"[\w.-]+/[\w.-]+", noun) else "OWNER/NAME"
        raise CheckpointError(f"{noun}: there is no such folder", f"regard import hf:{name} downloads a model first")
    with meter.watch(f"reading {folder}, tensors") as advance:
        arrived = import_folder(folder, advance)
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
        with meter.watch("comparing with transformers, texts") as advance:
            facts.checked = compare(folder, load_bundle(str(folder), "cpu"), advance)
    if out is not None:
        with meter.watch(f"writing {out}"):
            facts.run = str(keep(arrived, out))
    return facts


def keep(arrived: Imported, out: Path) -> Path:
    """A run that holds a model from elsewhere, so that every verb that takes a run takes it."""
    insist_on_free(out, "--out ANOTHER")
    plan = arrived.plan
    lexicon = arrived.lexicon
    files = ({} if lexicon is None else lexicon.files()) | arrived.origin.entries()
    about = describe_import(plan)
    state = {"moment": {"ranking": []}, "import": about, "plugins": note_plugins((), about["settings"], plan.spec)}
    data = {"spec": plan.spec.model_dump(mode="json"), "state": state}
    Store(out / "checkpoints").save(0, {"model": arrived.model.state_dict()}, data, files)
    write(out / IMPORT, json.dumps(about, indent=1).encode())
    return out


def insist_on_free(folder: Path, hint: str) -> None:
    """Refuse a place where something stands already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RegardError(f"{folder}: is there already", hint)


def save(model: Model, folder: str | Path) -> Path:
    """Write a model in hand to a new folder, which `load` and `Model.load` take; there is no tokenizer in it.

    >>> import regard, tempfile
    >>> model = regard.preset("gpt2", width=32, depth=2, heads=2, vocabulary=100).build()
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = regard.save(model, f"{place}/mine")
    ...     regard.Model.load(folder).parameter_count() == model.parameter_count()
    True
    """
    export(model, folder, "regard")
    return Path(folder)


def export(model: Model, place: str | Path, to: str | None = None, precision: str | None = None) -> list[Path]:
    """Write a model in hand for others, in the format that `to` names; the files. Its tokenizer isn't known here.

    `precision`: what the weights of this house's own format are packed to; the model in hand stays as it is.

    >>> import regard, tempfile
    >>> model = regard.preset("gpt2", width=32, depth=2, heads=2, vocabulary=100).build()
    >>> with tempfile.TemporaryDirectory() as place:
    ...     [file.name for file in regard.export(model, f"{place}/theirs")]
    ['config.json', 'model.safetensors']
    """
    target, noun = choose_target(to, precision, "to"), "the model"
    if precision is not None:
        model = deepcopy(model)
        use_precision(model, precision, noun)
    plugins = note_plugins((), model.spec.family, model.spec)
    given = target.prepare(Bundle(model, None, None, family=model.spec.family, plugins=plugins), noun)
    return target.write(given, noun, Path(place))


@dataclass
class Export:
    """What was written for others."""

    to: str
    files: list[str]
    checked: Comparison | None = None
    next: str = ""  # what one may type now


def choose_target(to: str | None, precision: str | None, option: str) -> TargetSpec:
    """The format that is meant: unless it is named, packed weights go into our own, and all else to Hugging Face."""
    target = choose_kind(TargetSpec, to or ("hf" if precision is None else "regard"), option)
    target.insist_on_precision(precision)
    return target


def send(
    noun: str,
    to: str | None,
    place: Path,
    check: bool = False,
    meter: Meter = SILENT,
    precision: str | None = None,
) -> Export:
    """Write a model for others, in the format that `to` names, and compare it with what they make of it, if wanted.

    `precision`: what its weights are packed to.
    """
    target = choose_target(to, precision, "--to")
    if check:
        target.insist_on_check()
    given = target.prepare(load_bundle(noun, "auto" if precision is None else "cpu", precision), noun)
    with meter.watch(f"writing {place}"):
        files = [str(path) for path in target.write(given, noun, place)]
    checked = None
    if check:
        with meter.watch("comparing with transformers"):
            checked = target.check(given, place)
    return Export(target.kind, files, checked, target.suggest_next(place))
