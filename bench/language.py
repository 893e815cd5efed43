"""A language model of nanoGPT's CPU size on tiny shakespeare: its own setting and ours, one after the other.

Theirs is a plain PyTorch loop with the settings that nanoGPT's README gives for a laptop: 4 layers, 4 heads, width 128,
context 64, 12 rows a batch, 2,000 steps of AdamW at 1e-3 with cosine decay to 1e-4, no dropout, an estimate of the loss
every 250 steps. Ours is recipes/shakespeare-characters.yaml and gets no more time than theirs took, everything
included: reading the corpus, training, and evaluating the whole validation text, which is how both are measured here.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import read
from regard.host.machine import keep_memory
from regard.runs.results import machine, record
from regard.runs.train import train

RECIPE = Path(__file__).parents[1] / "recipes" / "shakespeare-characters.yaml"
WIDTH, HEADS, DEPTH, CONTEXT, ROWS = 128, 4, 4, 64, 12
STEPS, WARMUP, PEAK, FLOOR = 2000, 100, 1e-3, 1e-4
BAR = 1.80
SPARE = 3.0  # seconds for what comes before our training; its minutes include the evaluation


@dataclass
class Side:
    """How one side did."""

    loss: float  # over the whole validation text, in nats a character
    seconds: float


class Layer(nn.Module):
    """Attention and a feed-forward, norms first, no biases."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.attend, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.attend(self.norms[0](x)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Plain(nn.Module):
    """A GPT whose words are its token vectors."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                inner = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * DEPTH) if inner else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        return F.linear(self.norm(self.layers(x)), self.words.weight)


def plain(corpus: Path) -> Side:
    """Train as nanoGPT's README says, and measure over the whole validation text."""
    text = (corpus / "input.txt").read_text()
    began = time.perf_counter()
    torch.manual_seed(1337)
    letters = {letter: number for number, letter in enumerate(sorted(set(text)))}
    data = torch.tensor([letters[letter] for letter in text])
    learned, kept = data[: int(0.9 * len(data))], data[int(0.9 * len(data)) :]
    model = Plain(len(letters))
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, PEAK, (0.9, 0.99))
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        if step % 250 == 0:
            for part in (learned, kept):
                estimate(model, part)
        loss = cost(model, *drawn(learned))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
    seconds = time.perf_counter() - began
    return Side(whole(model, kept), seconds)


def rate(step: int) -> float:
    if step < WARMUP:
        return PEAK * (step + 1) / (WARMUP + 1)
    return FLOOR + 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP))) * (PEAK - FLOOR)


def drawn(data: Tensor) -> tuple[Tensor, Tensor]:
    places = torch.randint(len(data) - CONTEXT, (ROWS,))
    rows = torch.stack([data[place : place + CONTEXT + 1] for place in places])
    return rows[:, :-1], rows[:, 1:]


def cost(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


@torch.no_grad()
def estimate(model: nn.Module, data: Tensor) -> float:
    return sum(cost(model, *drawn(data)).item() for _ in range(20)) / 20


@torch.no_grad()
def whole(model: nn.Module, data: Tensor) -> float:
    """Windows of 64 that overlap by half, each prediction counted once: as ours are evaluated."""
    total, count, first, done = 0.0, 0, 0, 0
    while done < len(data) - 1:
        last = min(len(data) - 1, first + CONTEXT)
        logs = model(data[None, first:last]).log_softmax(-1)[0, done - first :]
        total -= float(logs.gather(1, data[done + 1 : last + 1, None]).sum())
        count += last - done
        done, first = last, first + CONTEXT // 2
    return total / count


def ours(corpus: Path, seconds: float) -> Side:
    """Train by the recipe in so many seconds, with all that belongs to it."""
    keep_memory()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        minutes = (seconds - SPARE) / 60
        words = [f"data={corpus.resolve()}", f"out={folder}/run", f"train.minutes={minutes}"]
        done = train(read(RECIPE).change(words), lambda _: None)
    assert done.report.measures is not None
    return Side(float(done.report.measures["loss"]), time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="the folder with input.txt")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", type=Path, help="a Markdown page of results")
    parser.add_argument("--strict", action="store_true", help=f"fail unless ours is below {BAR} in no more time")
    parser.add_argument("--side", choices=("ours", "plain"), help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0.0, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.side:
        side = plain(words.corpus) if words.side == "plain" else ours(words.corpus, words.seconds)
        print(json.dumps(asdict(side)))
        return
    theirs = measured("plain", words.corpus)
    mine = measured("ours", words.corpus, theirs.seconds)
    if words.json:
        print(json.dumps({"plain": asdict(theirs), "ours": asdict(mine)}))
    else:
        told = [f"{side.loss:.3f} in {side.seconds:.0f} s" for side in (theirs, mine)]
        print(f"nanoGPT's setting {told[0]}, ours {told[1]}")
    if words.record:
        row = {
            "corpus": "tiny shakespeare, characters",
            "nanoGPT's CPU setting": f"{theirs.loss:.3f} in {theirs.seconds:.0f} s",
            "ours": f"{mine.loss:.3f} in {mine.seconds:.0f} s",
            "measured": "nats a character over the whole validation text, windows of 64 that overlap by half",
            "machine": machine(),
            "command": "`python bench/language.py CORPUS`",
        }
        record(words.record, "Language: a model of nanoGPT's CPU size", row)
    if words.strict and (mine.loss >= BAR or mine.seconds > theirs.seconds):
        raise SystemExit(1)


def measured(side: str, corpus: Path, seconds: float = 0.0) -> Side:
    command = [sys.executable, __file__, "--side", side, "--seconds", str(seconds), str(corpus)]
    found = Side(**json.loads(subprocess.check_output(command, stderr=subprocess.DEVNULL)))
    print(f"{side}: {found.loss:.3f} in {found.seconds:.0f} s", file=sys.stderr)
    return found


if __name__ == "__main__":
    main()
