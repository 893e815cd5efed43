"""Training speed beside a plain PyTorch loop, in one run: `python bench/training.py CORPUS [--json] [--record PAGE]`.

Both sides train Transformer-tiny on the same batches of `recipes/multi30k-en-fr-30min.yaml`, in processes of their own
that take turns; the best round of each counts. The plain side is what one writes with torch alone: fused attention,
length-sorted batches, `F.cross_entropy` with smoothing, `AdamW`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import read
from regard.data.batches import Batch
from regard.host.machine import keep_memory
from regard.runs.folder import Run
from regard.runs.results import machine, record
from regard.train.listener import Listener, Step
from regard.train.moment import Moment

RECIPE = Path(__file__).parents[1] / "recipes" / "multi30k-en-fr-30min.yaml"
WARMUP = 5  # steps that don't count
WIDTH, HEADS, HIDDEN, DEPTH, DROPOUT, SMOOTHING = 128, 4, 256, 4, 0.15, 0.1
BAR = 1.25  # 6,000 tokens a second where the plain loop has 4,800


@dataclass
class Speeds:
    """The best rounds, in target tokens a second."""

    ours: float
    plain: float
    ratio: float
    rounds: int


class Attend(nn.Module):
    """Multi-head attention over itself or over a memory."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        q, k, v = (
            layer(states).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for layer, states in ((self.query, x), (self.key, memory), (self.value, memory))
        )
        found = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        return torch.as_tensor(self.out(found.transpose(1, 2).flatten(2)))


class Layer(nn.Module):
    """Self-attention, attention to a memory in a decoder, feed-forward; norms first."""

    def __init__(self, cross: bool) -> None:
        super().__init__()
        self.mix, self.cross = Attend(), Attend() if cross else None
        self.ffn = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(HIDDEN, WIDTH))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, mask: Tensor | None, memory: Tensor | None = None) -> Tensor:
        normed = self.norms[0](x)
        own = None if self.cross is not None else mask
        x = x + self.drop(self.mix(normed, normed, own, causal=self.cross is not None))
        if self.cross is not None and memory is not None:
            x = x + self.drop(self.cross(self.norms[1](x), memory, mask))
        return torch.as_tensor(x + self.drop(self.ffn(self.norms[2](x))))


class Plain(nn.Module):
    """Transformer-tiny, written with torch alone."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, WIDTH)
        nn.init.normal_(self.words.weight, std=WIDTH**-0.5)
        self.encoder = nn.ModuleList(Layer(cross=False) for _ in range(DEPTH))
        self.decoder = nn.ModuleList(Layer(cross=True) for _ in range(DEPTH))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.drop = nn.Dropout(DROPOUT)
        angles = torch.arange(1024)[:, None] / 10_000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
        self.register_buffer("places", torch.cat((angles.sin(), angles.cos()), -1))

    def embed(self, tokens: Tensor) -> Tensor:
        places = self.get_buffer("places")[: tokens.shape[1]]
        return torch.as_tensor(self.drop(self.words(tokens) * WIDTH**0.5 + places))

    def forward(self, source: Tensor, valid: Tensor, target: Tensor) -> Tensor:
        mask, x, y = valid[:, None, None], self.embed(source), self.embed(target)
        for layer in self.encoder:
            x = layer(x, mask)
        x = self.norms[0](x)
        for layer in self.decoder:
            y = layer(y, mask, x)
        return F.linear(self.norms[1](y), self.words.weight)


class Clock(Listener):
    """Tokens and seconds between the warm-up and now."""

    def __init__(self) -> None:
        self.first: tuple[int, float] | None = None
        self.last = (0, 0.0)

    def on_step(self, step: Step, moment: Moment) -> None:
        self.last = step.tokens, time.perf_counter()
        if step.step == WARMUP:
            self.first = self.last

    @property
    def speed(self) -> float:
        if self.first is None or self.last == self.first:
            raise SystemExit("too few steps to measure; try --seconds 30")
        return (self.last[0] - self.first[0]) / (self.last[1] - self.first[1])


def ours(run: Run) -> float:
    keep_memory()
    clock = Clock()
    run.trainer([clock]).run()
    return clock.speed


def plain(run: Run, seconds: float) -> float:
    torch.manual_seed(1)
    prepared, clock = run.prepared(), Clock()
    model = Plain(len(prepared.lexicon.tokenizer))
    optimizer = torch.optim.AdamW(model.parameters(), 0.001)
    batches: Iterator[Batch] = (place.batch for place in run.trainer().task.batches(0, 0))
    moment, ends, tokens = Moment(), time.perf_counter() + seconds, 0
    for number, batch in enumerate(batches, 1):
        source, target = batch.source, batch.target
        logits = model(source.tokens, source.real, target.tokens[:, :-1])
        labels = target.tokens[:, 1:].masked_fill(~target.real[:, 1:], -100)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=SMOOTHING)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tokens += batch.tokens
        clock.on_step(Step(number, float(loss), 0.001, 0.0, tokens, 0.0, 0.0), moment)
        if time.perf_counter() > ends:
            break
    return clock.speed


def measured(corpus: Path, seconds: float, rounds: int) -> Speeds:
    """Let the two sides take turns."""
    with tempfile.TemporaryDirectory() as folder:
        words = [f"data={corpus.resolve()}", f"out={folder}/run", f"train.minutes={seconds / 60}", "train.evaluate=0"]
        run = Run.begin(read(RECIPE).change([*words, "train.save=1000000", "corpus.validation=null"]))
        best = {"ours": 0.0, "plain": 0.0}
        for number in range(rounds):
            for side, before in best.items():
                command = [sys.executable, __file__, "--side", side, "--seconds", str(seconds), str(run.folder)]
                best[side] = max(before, float(subprocess.check_output(command, stderr=subprocess.DEVNULL)))
                print(f"round {number + 1}: {side} {best[side]:,.0f} tokens/s at best", file=sys.stderr)
    return Speeds(best["ours"], best["plain"], best["ours"] / best["plain"], rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="the folder with train.en and train.fr")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", type=Path, help="a Markdown page of results")
    parser.add_argument("--strict", action="store_true", help=f"fail below {BAR} times the plain loop")
    parser.add_argument("--side", choices=("ours", "plain"), help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.side:
        run = Run.open(words.corpus)
        print(ours(run) if words.side == "ours" else plain(run, words.seconds))
        return
    found = measured(words.corpus, words.seconds, words.rounds)
    if words.json:
        print(json.dumps(asdict(found)))
    else:
        print(
            f"ours {found.ours:,.0f}, a plain PyTorch loop {found.plain:,.0f} target tokens/s: {found.ratio:.2f} times"
        )
    if words.record:
        row = {
            "corpus": words.corpus.resolve().name,
            "ours": f"{found.ours:,.0f}",
            "a plain PyTorch loop": f"{found.plain:,.0f}",
            "ratio": f"{found.ratio:.2f}",
            "measured": f"best of {found.rounds} rounds of {words.seconds:.0f} s, taking turns",
            "machine": machine(),
            "command": "`python bench/training.py CORPUS`",
        }
        record(words.record, "Training speed, transformer-tiny, target tokens/s", row)
    if words.strict and found.ratio < BAR:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
