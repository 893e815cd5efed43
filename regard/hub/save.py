"""A model written in Hugging Face layout, so that what reads that layout reads it: config.json and safetensors."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from regard.core.model import Model, ModelSpec
from regard.errors import CheckpointError, RegardError, SpecError
from regard.hub.load import WEIGHTS, Plan, planned
from regard.models import Family, Settings, families

# what a trained model doesn't show; and the order of sinusoids, which the rows' changes make good
UNSEEN = ("dropout", "init", "halves")


def plan_for(family: Family[Any], settings: Settings, name: str) -> Plan:
    """The layout and the class that say all of a model: reading what is written must give it back."""
    wanted = _essence(family.compose(settings).model_dump())
    for kind, layout in family.layouts.items():
        for architecture in layout.heads:
            plan = Plan(kind, family, layout, settings, architecture, {})
            try:
                plan = replace(plan, config=config_of(plan))
                if _essence(planned(plan.config, names=plan.table().names()).spec.model_dump()) == wanted:
                    return plan
            except RegardError:
                continue
    known = ", ".join(family.layouts) or "none"
    raise RegardError(f"{name}: no Hugging Face layout has a place for this model (of this family: {known})")


def plan_of(spec: ModelSpec, settings: Mapping[str, Any], name: str) -> Plan:
    """The plan of a model whose family's settings are known, but for a vocabulary that grew and a head of its own."""
    family = families()[str(settings.get("kind"))]
    stack = spec.decoder or spec.encoder
    assert stack is not None
    changed = {**settings, "vocabulary": stack.embedding.fields().get("vocabulary", settings.get("vocabulary"))}
    wanted = _essence(spec.model_dump())
    heads: list[Any] = [settings["head"], spec.head, "masking"] if "head" in settings else [None]
    for head in heads:
        try:
            tried = family.settings.parse(changed | ({"head": head} if "head" in settings else {}))
        except SpecError:
            continue
        if _essence(family.compose(tried).model_dump()) == wanted:
            return plan_for(family, tried, name)
    raise RegardError(f"{name}: no Hugging Face layout has a place for what its task made of the model")


def config_of(plan: Plan) -> dict[str, Any]:
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


def tensors_of(plan: Plan, model: Model, names: tuple[str, ...] = ()) -> dict[str, Tensor]:
    """Their tensors, from ours; `names`: as a file had them, to be written alike."""
    ours = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    return {name: tensor for entry in plan.table(names).entries for name, tensor in entry.write(ours, plan)}


def exported(
    plan: Plan,
    model: Model,
    folder: Path,
    keys: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write a folder, whole or not at all; `keys`: more for its config.json, `files`: more beside it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RegardError(f"{folder}: is there already", "another folder")
    aside = folder.with_name(f"{folder.name}.tmp-{os.getpid()}")
    try:
        aside.mkdir(parents=True)
        tensors = tensors_of(plan, model)
        dtype = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
        save_file(tensors, str(aside / WEIGHTS), metadata={"format": "pt"})
        (aside / WEIGHTS).chmod(0o644)  # the library writes it for its owner alone
        for name, text in (files or {}).items():
            (aside / name).write_text(text + "\n")
        config = {**config_of(plan), **(keys or {}), "dtype": dtype, "torch_dtype": dtype}
        (aside / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        if folder.exists():
            folder.rmdir()
        os.replace(aside, folder)
    except OSError as error:
        raise CheckpointError(f"{folder}: {error.strerror}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return sorted(folder.iterdir())
