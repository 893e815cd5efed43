"""Parity: a folder's model here and in transformers, on the same random input with padding on either side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.model import Model
from regard.errors import MissingPackage
from regard.hub.load import Imported
from regard.parts.head import ClassesHead, PoolerHead

ROWS, TIME = 3, 24
POSITIONLESS = ("mamba",)  # whose class takes no position_ids
WORDS = ("logits", "prediction_logits")  # how their classes call scores


def reference(folder: Path, found: Imported) -> Any:
    """The same folder as transformers loads it, in fp32."""
    try:
        import transformers
    except ImportError:
        raise MissingPackage("comparing with others", "transformers", "hub") from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    kind = getattr(transformers, found.plan.architecture)
    return kind.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()


@torch.no_grad()
def largest_difference(folder: Path, found: Imported, seed: int = 0, theirs: Any = None) -> float:
    """The largest difference of any output at a real position, over inputs without pads and with them on each side.

    `theirs`: the same folder, where transformers has loaded it already.
    """
    theirs, ours = theirs or reference(folder, found), found.model.float()
    luck = torch.Generator().manual_seed(seed)
    if ours.encoder is not None and ours.encoder.embedding.table is None:
        height, width, channels = ours.spec.main.embedding.picture or (1, 1, 1)
        images = torch.randn(ROWS, channels, height, width, generator=luck)
        return _gap(theirs(pixel_values=images).logits, ours(images))
    words = theirs.config.vocab_size
    tokens = torch.randint(words, (ROWS, TIME), generator=luck)
    if ours.encoder is not None and ours.decoder is not None:
        answers = torch.randint(words, (ROWS, TIME // 2), generator=luck)
        return max(_two_stacks(ours, theirs, tokens, answers, mask) for mask in masks(tokens).values())
    return max(_one_stack(found, theirs, tokens, side, mask) for side, mask in masks(tokens).items())


def _two_stacks(ours: Model, theirs: Any, tokens: Tensor, answers: Tensor, mask: Tensor) -> float:
    """Theirs is given pads on the right: positions count them there, and here they don't."""
    expected = theirs(**pads_last(tokens, mask), decoder_input_ids=answers).logits
    return _gap(expected, ours(answers, ours.encode(tokens, mask)))


def _one_stack(found: Imported, theirs: Any, tokens: Tensor, side: str, mask: Tensor) -> float:
    ours = found.model
    pooled = isinstance(ours.head, PoolerHead | ClassesHead)
    if pooled and side == "left":
        return 0.0  # theirs takes what stands first, be it a pad
    mine = ours(tokens, valid=mask)
    if found.plan.kind in POSITIONLESS:
        # pads on the left leave a trace in theirs: a bias goes from them into the convolution of the first real tokens
        words = pads_last(tokens, mask)
    else:
        words = {"input_ids": tokens, "attention_mask": mask.long()}
        words["position_ids"] = (mask.long().cumsum(1) - 1).clamp(min=0)
    answer = theirs(**words)
    scores = next((answer[name] for name in WORDS if name in answer), None)
    if pooled:
        return _gap(answer.pooler_output if scores is None else scores, mine)
    return _gap((answer.last_hidden_state if scores is None else scores)[words["attention_mask"].bool()], mine[mask])


def pads_last(tokens: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """The same rows, each with its real tokens first, as theirs are given them."""
    order = torch.argsort(mask.logical_not().to(torch.uint8), dim=1, stable=True)
    return {"input_ids": tokens.gather(1, order), "attention_mask": mask.gather(1, order).long()}


def masks(tokens: Tensor) -> dict[str, Tensor]:
    """Which tokens are real: all; the first ones of each row; the last ones."""
    rows, time = tokens.shape
    lengths = torch.tensor([max(2, time - 5 * n) for n in range(rows)])[:, None]
    order = torch.arange(time)[None]
    return {"none": order >= 0 * lengths, "right": order < lengths, "left": order >= time - lengths}


def _gap(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())
