"""A model with something else in a slot isn't its family's any more, and no file may say that it is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.errors import RegardError, SpecError
from regard.hub.save import export_folder, match_layouts, match_model
from regard.hub.targets.ctranslate2 import _fill, _mix
from regard.models import families, preset, presets
from tests.models.test_presets import tiny

SAID: list[dict[str, Any]] = [
    {"mix": "convolution"},
    {"mix": "pool"},
    {"mix": {"hard": True}},
    {"cross": {"hard": True}},
    {"ffn": "none"},
    {"ffn": "experts"},
    {"norm": "none"},
    {"position": "none"},
    {"position": "alibi"},
    {"position": {"join": "concatenate"}},
]


@pytest.mark.parametrize("said", SAID, ids=str)
def test_no_layout_has_a_place_for_what_was_changed(said: dict[str, Any]) -> None:
    refused = 0
    for family in families().values():
        for name in list(family.presets)[:1] if family.layouts else []:
            try:
                settings = family.settings.parse({**family.presets[name], **said})
                spec = family.compose(settings)
            except SpecError:
                continue  # it can't stand there at all
            if spec == preset(name):
                continue  # nothing was changed: Mamba has no positions to leave out
            with pytest.raises(RegardError, match=f"{name}: no Hugging Face layout has a place for this model"):
                match_layouts(family, settings, name)
            refused += 1
    assert refused > (0 if "cross" in said else 3)


def test_a_run_with_another_mixer_is_refused_by_name(tmp_path: Path) -> None:
    family = presets()["gpt2"]
    settings = family.settings.parse({"mix": "mamba", "width": 16, "depth": 1, "heads": 2, "vocabulary": 20})
    spec = family.compose(settings)
    with pytest.raises(RegardError, match=r"mine: no Hugging Face layout(.|\n)*decoder\.blocks\.0\.mix is mamba here"):
        match_model(spec, settings.model_dump(mode="json"), "mine")
    # nor does a plan for the family's own model let one through whose tensors are called and shaped alike
    plan = match_layouts(family, family.settings.parse({**settings.model_dump(), "mix": None}), "mine")
    hard = family.compose(family.settings.parse({**settings.model_dump(), "mix": {"hard": True}}))
    with pytest.raises(RegardError, match=r"something else: decoder\.blocks\.0\.mix\.hard is True here"):
        export_folder(plan, hard.build(), tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_what_was_said_as_the_family_has_it_goes_out() -> None:
    family = presets()["gpt2"]
    settings = family.settings.parse({"mix": "attention", "position": "learned", "norm": "layernorm"})
    assert match_layouts(family, settings, "mine").kind == "gpt2"


def test_ctranslate2_has_no_hard_weights_and_no_features_beside_the_words() -> None:
    with pytest.raises(RegardError, match="hard"):
        _mix(preset("transformer-tiny", mix={"hard": True}).encoder)  # type: ignore[arg-type]
    with pytest.raises(RegardError, match="hard"):
        _mix(preset("transformer-tiny", cross={"hard": True}).decoder)  # type: ignore[arg-type]
    spec = tiny("gpt2").decoder
    assert spec is not None
    beside = spec.replace(embedding=spec.embedding.replace(position={"kind": "learned", "join": "concatenate"}))
    with pytest.raises(RegardError, match="concatenated"):
        _fill(SimpleNamespace(embeddings=SimpleNamespace()), beside.build(), beside)
