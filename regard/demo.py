"""The demo: one model, drawn, built, run forward and stepped."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from regard.models import preset


@dataclass
class Pass:
    """What one forward pass of an untrained model shows."""

    model: str
    parameters: int
    shape: tuple[int, ...]
    loss: float  # in nats a word; near ln(vocabulary), since nothing is learned yet
    chance: float
    milliseconds: float  # encoding and decoding, the best of a few
    stepping_difference: float  # between the whole target at once and word by word
    state_bytes: int


def forward_pass(name: str = "transformer-tiny", rows: int = 8, source: int = 12, target: int = 10) -> Pass:
    """Encode random words, decode random words, and check that stepping agrees."""
    torch.manual_seed(0)
    model = preset(name).build().eval()
    words = model(torch.zeros(1, 1, dtype=torch.long), model.encode(torch.zeros(1, 1, dtype=torch.long))).shape[-1]
    sources, targets = torch.randint(words, (rows, source)), torch.randint(words, (rows, target))
    times = []
    with torch.no_grad():
        for _ in range(5):  # the first calls pay for memory and threads
            began = time.perf_counter()
            memory = model.encode(sources)
            logits = model(targets, memory)
            times.append(time.perf_counter() - began)
        state = model.start(rows, memory, room=target)
        stepped = torch.stack([model.step(word, state) for word in targets.unbind(1)], 1)
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten())
    return Pass(
        name,
        model.parameter_count(),
        tuple(logits.shape),
        float(loss),
        math.log(words),
        min(times) * 1000,
        float((stepped - logits).abs().max()),
        state.nbytes,
    )
