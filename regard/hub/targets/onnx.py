"""Encoders and classifiers as ONNX, by torch's own exporter, checked with onnxruntime before they are handed over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.export import Dim

from regard.core.model import Model
from regard.errors import DiskError, MissingPackage, RegardError
from regard.host.files import describe
from regard.hub.targets.target import TargetSpec
from regard.tasks.bundle import Bundle

CLOSE = 1e-4  # how far onnxruntime may be from here


class Onnx(TargetSpec):
    """Encoders and classifiers."""

    kind: Literal["onnx"] = "onnx"

    def write(self, given: Bundle, noun: str, place: Path) -> list[Path]:
        write_onnx(given.model, place)
        return [place]


class MaskedModel(nn.Module):
    """A model of tokens and of which of them are real."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, valid: Tensor) -> Tensor:
        return self.model(tokens, valid=valid)


def write_onnx(model: Model, path: Path) -> float:
    """Write a model to a file; the largest difference between onnxruntime and this house on random input."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingPackage("writing ONNX", str(error.name), "onnx") from None
    if model.encoder is None or model.decoder is not None:
        raise RegardError("only encoders and classifiers go to ONNX: it has no state to step with", "--to ctranslate2")
    if model.spec.main.embedding.graph is not None:
        raise RegardError("models that read graphs don't go to ONNX: edges have no place there", "model.save(FOLDER)")
    if path.exists():
        raise RegardError(f"{path}: is there already", "another name")
    images = model.encoder.embedding.table is None
    model = model.float().eval()
    inputs: tuple[Tensor, ...]
    other: tuple[Tensor, ...]
    inputs, other = (_images(model, 2), _images(model, 3)) if images else (_tokens(model, 2, 9), _tokens(model, 3, 17))
    rows, time = Dim("rows", min=1), Dim("time", min=1)
    shapes: Any = ({0: rows},) if images else ({0: rows, 1: time}, {0: rows, 1: time})
    names = ["images"] if images else ["tokens", "valid"]
    aside = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        torch.onnx.export(
            model if images else MaskedModel(model),
            inputs,
            aside,
            input_names=names,
            output_names=["output"],
            dynamic_shapes=shapes,
            external_data=False,
            verbose=False,
        )
        session = onnxruntime.InferenceSession(str(aside), providers=["CPUExecutionProvider"])
        found = session.run(None, {name: value.numpy() for name, value in zip(names, other, strict=True)})[0]
        with torch.no_grad():
            expected = model(*other) if images else MaskedModel(model)(*other)
        gap = (torch.from_numpy(found) - expected).abs()
        if expected.dim() > 2:  # what stands at a pad means nothing
            gap = gap[other[-1]]
        worst = float(gap.max())
        if not worst <= CLOSE:
            raise RegardError(f"onnxruntime differs by {worst:.2g} from here, and {CLOSE:.0e} is the most")
        os.replace(aside, path)
    except OSError as error:
        raise DiskError(f"{path}: not written, {describe(error)}", "make room, or another path") from None
    finally:
        aside.unlink(missing_ok=True)
    return worst


def _tokens(model: Model, rows: int, time: int) -> tuple[Tensor, Tensor]:
    """Random tokens, each row with one real token less than the one before."""
    assert model.encoder is not None
    luck = torch.Generator().manual_seed(rows)
    words: Any = model.encoder.embedding.table
    tokens = torch.randint(words.num_embeddings, (rows, time), generator=luck)
    return tokens, torch.arange(time)[None] < torch.arange(time, time - rows, -1)[:, None]


def _images(model: Model, rows: int) -> tuple[Tensor]:
    assert model.spec.encoder is not None
    sizes = model.spec.encoder.embedding.fields()
    luck = torch.Generator().manual_seed(rows)
    return (torch.randn(rows, sizes["channels"], sizes["image"], sizes["image"], generator=luck),)
