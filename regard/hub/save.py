"""A model written in Hugging Face layout, so that what reads that layout reads it: config.json and safetensors."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from regard.core.model import Model, ModelSpec
from regard.core.spec import show_value
from regard.errors import CheckpointError, DiskError, RegardError
from regard.host.files import aside, describe
from regard.hub.load import WEIGHTS, FamilyMatch, match_family
from regard.models import Family, Settings, families

# what a trained model doesn't show; and the order of sinusoids, which the rows' changes make good
UNSEEN = ("dropout", "stochastic_depth", "position_std", "scaled", "init", "halves")
TOLD = 3  # differences of a layout


def match_layouts(family: Family[Any], settings: Settings, name: str) -> FamilyMatch:
    """The layout and the class that say all of a model: reading what is written must give it back."""
    wanted = _essence(family.compose(settings).model_dump())
    reasons = []
    for kind, layout in family.layouts.items():
        tried = [_try(FamilyMatch(kind, family, layout, settings, head, {}), wanted) for head in layout.heads]
        plan, lacking = min(tried, key=lambda each: sum(gap.size for gap in each[1]))
        if not lacking:
            return plan
        reasons.append(f"{kind} ({plan.architecture}): {_few(lacking)}")
    raise _no_place(name, reasons or [f"the family {settings.kind} has none"])


def match_model(spec: ModelSpec, settings: Mapping[str, Any], name: str) -> FamilyMatch:
    """The plan of a model whose family's settings are known, but for a vocabulary that grew and a head of its own."""
    family = families()[str(settings.get("kind"))]
    if not family.layouts:
        raise _no_place(name, [f"the family {settings['kind']} has none"])
    stack = spec.decoder or spec.encoder
    assert stack is not None
    changed = dict(settings)
    if "vocabulary" in settings:
        changed["vocabulary"] = stack.embedding.token_count or settings["vocabulary"]
    if "head" in settings:
        changed["head"] = spec.head
    chosen = family.settings.parse(changed)
    lacking = differences(_essence(spec.model_dump()), _essence(family.compose(chosen).model_dump()))
    if lacking:
        raise _no_place(name, [f"{chosen.kind}: {_few(lacking)}"])
    return match_layouts(family, chosen, name)


@dataclass(frozen=True)
class Gap:
    """Something of a model that a layout can't say, and how much of the model that is."""

    text: str
    size: int = 1


def _try(plan: FamilyMatch, wanted: Any) -> tuple[FamilyMatch, list[Gap]]:
    """A plan with its config.json, and what of the model that can't say."""
    try:
        plan = replace(plan, config=config_of(plan))
        table = plan.table(partial=True)
        read = match_family(plan.config, names=table.names()).spec
    except RegardError as error:
        return plan, [Gap(error.message, len(wanted))]
    lacking = differences(wanted, _essence(read.model_dump()))
    return plan, lacking or [Gap(f"there is no name for {one}") for one in table.lacking]


def differences(ours: Any, theirs: Any, path: str = "") -> list[Gap]:
    """Where two specs differ, each place with both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.get("kind") == theirs.get("kind"):
        places = [(f"{path}.{key}" if path else key, ours.get(key), theirs.get(key)) for key in {**ours, **theirs}]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        places = [(f"{path}.{n}", *pair) for n, pair in enumerate(zip(ours, theirs, strict=True))]
    else:
        size = len(ours) if isinstance(ours, dict | list) else 1
        told = f"{path} is {_short(ours)} here and {_short(theirs)} there"
        return [] if ours == theirs else [Gap(told, size)]
    return [gap for place, one, other in places for gap in differences(one, other, place)]


def _short(value: Any) -> str:
    return str(value.get("kind", "something")) if isinstance(value, dict) else show_value(value)


def _few(gaps: Sequence[Gap]) -> str:
    more = f"; and {len(gaps) - TOLD} more" if len(gaps) > TOLD else ""
    return "; ".join(gap.text for gap in gaps[:TOLD]) + more


def _no_place(name: str, reasons: Sequence[str]) -> RegardError:
    told = "".join(f"\n  {reason}" for reason in reasons)
    return RegardError(f"{name}: no Hugging Face layout has a place for this model{told}", "--to regard")


def config_of(plan: FamilyMatch) -> dict[str, Any]:
    """The config.json of a plan; what an imported one said beside it stays."""
    layout, values = plan.layout, plan.settings.model_dump()
    told = {key.name: key.write(values[setting]) for setting, key in layout.keys.items()}
    named = {"model_type": plan.kind, "architectures": [plan.architecture]}
    return {**layout.fixed, **told, **layout.write(plan.settings), **plan.config, **named}


def _essence(tree: Any) -> Any:
    """A spec without what matters only while learning."""
    if isinstance(tree, dict):
        return {key: _essence(value) for key, value in tree.items() if key not in UNSEEN}
    return [_essence(item) for item in tree] if isinstance(tree, list | tuple) else tree


def tensors_of(plan: FamilyMatch, model: Model, names: tuple[str, ...] = ()) -> dict[str, Tensor]:
    """Their tensors, from ours; `names`: as a file had them, to be written alike."""
    ours = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    return {name: tensor for entry in plan.table(names).entries for name, tensor in entry.write(ours, plan)}


def dtypes(model: Model) -> dict[str, str]:
    """How a config.json calls the type of a model's weights, today and before."""
    name = str(next(model.parameters()).dtype).removeprefix("torch.")
    return {"dtype": name, "torch_dtype": name}


def carry_over(config: Mapping[str, Any], plan: FamilyMatch) -> dict[str, Any]:
    """A config.json as it came, with what differs between the settings that it stands for and those of a plan."""
    came = match_family(config, names=plan.table().names())
    before, after = (config_of(replace(each, config={})) for each in (came, plan))
    told = {key: value for key, value in config.items() if key not in before or key in after}
    return told | {key: value for key, value in after.items() if key not in before or before[key] != value}


@contextmanager
def fill_aside(folder: Path) -> Iterator[Path]:
    """A new folder, whole or not at all: it is filled aside, and one rename puts it in place."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RegardError(f"{folder}: is there already", "another folder")
    beside = aside(folder)
    try:
        beside.mkdir(parents=True)  # what has that name already isn't ours, and stays
        try:
            yield beside
            if folder.exists():
                folder.rmdir()
            os.replace(beside, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except FileExistsError as error:  # somebody else's
        raise CheckpointError(f"{folder}: {error.strerror or error}") from None
    except OSError as error:
        raise DiskError(f"{folder}: not written, {describe(error)}", "make room, or another folder") from None


def save_weights(tensors: dict[str, Tensor], path: Path) -> None:
    """Write a safetensors file; what the disk has against it is an OSError, as everywhere else."""
    try:
        save_file(tensors, str(path), metadata={"format": "pt"})
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))  # the library keeps it only in its message
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from None
    path.chmod(0o644)  # the library writes it for its owner alone


def export_folder(
    plan: FamilyMatch, model: Model, folder: Path, files: Mapping[str, bytes] | None = None
) -> list[Path]:
    """Write a folder, whole or not at all; `files`: beside the weights, a config.json of its own among them."""
    with fill_aside(folder) as place:
        tensors = tensors_of(plan, model)
        save_weights(tensors, place / WEIGHTS)
        usual = {"config.json": json.dumps(config_of(plan) | dtypes(model), indent=2).encode()}
        for name, content in {**usual, **(files or {})}.items():
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_bytes(content)
        read = match_family(json.loads((place / "config.json").read_bytes()), names=tensors)
        lacking = differences(_essence(model.spec.model_dump()), _essence(read.spec.model_dump()))
        if lacking:
            raise _no_place(str(folder), [f"its config.json says something else: {_few(lacking)}"])
    return sorted(path for path in folder.rglob("*") if path.is_file())
