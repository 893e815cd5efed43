"""The logit lens: what a model would answer if it stopped after each layer (nostalgebraist 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError
from regard.lens.finding import Finding, choose_answers, record
from regard.lens.look import Look, evaluating


@dataclass(frozen=True)
class LayerAnswers(Finding):
    """What the stream says after each layer, read as the last layer's is."""

    layers: list[str]  # names of the streams, the embedding first
    positions: list[int]
    answers: list[str]  # what is asked about at each position
    probability: Tensor  # (layers, positions), of that answer
    rank: Tensor  # (layers, positions); 1: nothing is likelier
    best: list[list[list[tuple[str, float]]]]  # layers, positions: the likeliest answers, with their probabilities


@torch.no_grad()
def logit_lens(look: Look, positions: Sequence[int] | None = None, best: int = 3) -> LayerAnswers:
    """Each block's stream through the last norm and the head: ranks, likeliest answers, and the answer's probability.

    It is for stacks whose blocks add to one stream, so that all layers speak the head's language more or less: the
    Transformer and what else is residual. Early layers needn't: a low rank there isn't ignorance, and a word that
    appears isn't yet a decision. Recurrent stacks without a residual and those that blend all layers are refused.
    """
    name = "decoder" if look.model.decoder is not None else "encoder"
    stack = look.model.decoder or look.model.encoder
    assert stack is not None
    _insist_on_stream(look, name)
    answers = choose_answers(look, positions)
    layers = [f"{name}.embedded", *(f"{name}.blocks.{number}.stream" for number in range(len(stack.blocks)))]
    streams = record(look, *layers)
    with evaluating(look.model):
        x = torch.stack([streams[layer] for layer in layers])
        features = x if stack.norm is None else stack.norm(x)
        rows = [look.model.answer(each[None], valid=look.inputs.valid)[0] for each in features]
    logits = torch.stack(rows).float()  # (layers, time, answers), or (layers, answers) for a text's one answer
    logits = logits[:, None].expand(-1, len(answers), -1) if logits.dim() == 2 else logits[:, list(answers)]
    shares = (F.logsigmoid(logits) if look.reading.output == "sigmoid" else logits.log_softmax(-1)).exp()
    asked = torch.tensor(list(answers.values()), device=logits.device).expand(len(layers), -1)[..., None]
    ranks = 1 + (logits > logits.gather(-1, asked)).sum(-1)
    return LayerAnswers(
        layers,
        list(answers),
        look.reading.spell(list(answers.values())),
        shares.gather(-1, asked)[..., 0],
        ranks,
        _spell_best(look, shares, best),
    )


def _spell_best(look: Look, shares: Tensor, best: int) -> list[list[list[tuple[str, float]]]]:
    top = shares.topk(min(best, shares.shape[-1]), -1)
    return [
        [list(zip(look.reading.spell(numbers), values, strict=True)) for numbers, values in zip(*layer, strict=True)]
        for layer in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    ]


def _insist_on_stream(look: Look, name: str) -> None:
    """Refuse a stack in which no stream leads from the embedding to the head."""
    spec = look.model.spec.decoder if name == "decoder" else look.model.spec.encoder
    assert spec is not None
    if spec.blend:
        raise InputError(f"the {name}'s answer is read off a blend of all layers, and not off the last", "look.values")
    for number, block in enumerate(spec.layout()):
        if not block.residual:
            kind = "no mixer" if block.mix is None else block.mix.kind
            raise InputError(
                f"{name}.blocks.{number} ({kind}) doesn't add to a stream: its vectors are a language of their own",
                "a model of residual blocks, or look.values('*.stream')",
            )
