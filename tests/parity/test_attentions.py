"""What a look shows of models from elsewhere, against the attentions that transformers computes openly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from regard.core.inputs import Inputs
from regard.decode.reading import Reading, Strip
from regard.hub.load import import_folder
from regard.lens.look import Look
from tests.parity.test_hub import CASES, VOCABULARY, made

ALONE = [
    "gpt2",
    "openai-gpt",
    "gpt_neo",
    "bert",
    "modernbert",
    "llama",
    "mistral window",
    "mixtral",
    "qwen3",
    "deepseek_v3",
]
PAIRED = ["t5", "marian", "pegasus"]


def read(case: str, folder: Path) -> tuple[Any, Any]:
    """A random model as transformers has it, with its softmax in the open, and as we import it."""
    made(case, folder)
    theirs = getattr(hf, CASES[case][0]).from_pretrained(folder, attn_implementation="eager").eval()
    return theirs, import_folder(folder).model.eval()


def lay_out(tokens: torch.Tensor, source: torch.Tensor | None = None) -> Reading:
    def strip(row: torch.Tensor) -> Strip:
        return Strip(tuple(map(str, row[0].tolist())), (False,) * row.shape[1])

    memory = None if source is None else Inputs(source)
    return Reading(Inputs(tokens, memory=memory), strip(tokens), None if source is None else strip(source))


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (1, 14), generator=torch.Generator().manual_seed(5))


def compare(look: Look, pattern: str, expected: Any) -> None:
    found = look.weights(pattern)
    assert len(found) == len(expected) > 0
    for weights, theirs in zip(found.values(), expected, strict=True):
        assert weights.shape == theirs.shape[1:]
        torch.testing.assert_close(weights, theirs[0].float(), atol=1e-5, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("case", ALONE)
def test_all_layers_and_heads_are_theirs(case: str, tokens: torch.Tensor, tmp_path: Path) -> None:
    theirs, ours = read(case, tmp_path / "theirs")
    compare(Look(ours, lay_out(tokens)), "*.mix.weights", theirs(tokens, output_attentions=True).attentions)


@torch.no_grad()
@pytest.mark.parametrize("case", PAIRED)
def test_encoder_decoder_and_cross_attention_are_theirs(case: str, tokens: torch.Tensor, tmp_path: Path) -> None:
    theirs, ours = read(case, tmp_path / "theirs")
    source, target = tokens[:, :9], tokens[:, 5:]
    expected = theirs(input_ids=source, decoder_input_ids=target, output_attentions=True)
    look = Look(ours, lay_out(target, source))
    compare(look, "encoder.*.weights", expected.encoder_attentions)
    compare(look, "decoder.*.mix.weights", expected.decoder_attentions)
    compare(look, "decoder.*.cross.weights", expected.cross_attentions)
