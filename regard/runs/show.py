"""The outline of whatever a noun names: a preset, a run, a checkpoint, or a folder in Hugging Face layout.

Nothing is built and no weights are read: of a folder's weights only the names count, which tell variants apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.config import assignments
from regard.core.model import ModelSpec
from regard.core.outline import Outline, outline
from regard.errors import CheckpointError, SpecError, warn
from regard.hub.load import Weights, match_family, read_json, shards
from regard.models import preset, presets
from regard.runs.folder import Run
from regard.runs.resolve import RUN, is_folder, is_run, read_resolved, split_noun
from regard.train.checkpoint import Store


def draw(noun: str, settings: Sequence[str] = ()) -> Outline:
    """Draw what a noun names; only a preset takes settings."""
    folder = Path(split_noun(noun)[0])
    there = is_run(folder) or is_folder(folder)
    if noun in presets() or not there:
        if there:
            warn(f"{noun} is a preset, and a folder too; ./{noun} means the folder")
        return outline(preset(noun, **assignments(settings)), noun)
    if settings:
        raise SpecError(f"{settings[0]}: {noun} is trained already, so its settings can't differ", "regard show PRESET")
    if is_folder(folder):
        return outline(_read_folder(folder), noun)
    if (folder / RUN).is_file() and not Store(folder / "checkpoints").list_steps():
        return outline(Run.open(folder).assembly().model, noun)  # nothing was saved yet
    return outline(read_resolved(noun, lambda checkpoint: ModelSpec.parse(checkpoint.json("spec"))), noun)


def _read_folder(folder: Path) -> ModelSpec:
    config = read_json(folder / "config.json")
    try:
        names = list(Weights(shards(folder, config)).files)
    except CheckpointError:  # without weights, or with some that are never read, its config.json still says its make
        names = []
    return match_family(config, str(folder / "config.json"), names).spec
