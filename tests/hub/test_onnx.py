"""ONNX: encoders and classifiers come out of onnxruntime as they do here, for other sizes of batch too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.core.model import Model
from regard.errors import RegardError
from regard.hub.targets.onnx import write_onnx
from regard.models import preset

pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")
SMALL: dict[str, Any] = {"width": 32, "depth": 2, "heads": 4, "vocabulary": 50}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert-tiny", {**SMALL, "context": 40}),
    "bert masking": ("bert-tiny", {**SMALL, "context": 40, "head": "masking"}),
    "bert classes": ("bert-tiny", {**SMALL, "context": 40, "head": {"kind": "classes", "classes": 5, "pool": "mean"}}),
    "bert tags": ("bert-tiny", {**SMALL, "context": 40, "head": {"kind": "tags", "tags": 7}}),
    "modernbert": ("modernbert-base", {**SMALL, "depth": 4, "hidden": 48, "local": 8, "head": "masking"}),
    "vit": ("vit-tiny", {}),
}


def made(case: str) -> Model:
    torch.manual_seed(0)
    name, settings = CASES[case]
    return preset(name, **settings).build().eval()


@pytest.mark.filterwarnings("ignore")  # the exporter's own
@pytest.mark.parametrize("case", CASES)
def test_onnxruntime_gives_what_the_model_gives(case: str, tmp_path: Path) -> None:
    model, path = made(case), tmp_path / "model.onnx"
    assert write_onnx(model, path) <= 1e-4
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    if case == "vit":
        inputs = {"images": torch.randn(5, 1, 8, 8)}
        expected = model(inputs["images"])
    else:
        tokens, valid = torch.randint(50, (1, 30)), torch.ones(1, 30, dtype=torch.bool)
        inputs = {"tokens": tokens, "valid": valid}
        expected = model(tokens)
    found = session.run(None, {name: value.numpy() for name, value in inputs.items()})[0]
    assert np.abs(found - expected.detach().numpy()).max() <= 1e-4


def test_what_steps_is_refused(tmp_path: Path) -> None:
    model = preset("gpt2", **SMALL, context=16).build()
    with pytest.raises(RegardError, match="only encoders and classifiers"):
        write_onnx(model, tmp_path / "model.onnx")
