"""What one writes with torch alone: fused attention, batches sorted by length, `F.cross_entropy`, `AdamW`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.harness import Missing, serve
from bench.sides.work import draw_rows, gauge, rate

SMOOTHING = 0.1
WARMUP = 5  # steps that don't count


class Attend(nn.Module):
    """Multi-head attention over itself or over a memory."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        q, k, v = (
            layer(states).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, states in ((self.query, x), (self.key, memory), (self.value, memory))
        )
        found = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        return torch.as_tensor(self.out(found.transpose(1, 2).flatten(2)))


class Layer(nn.Module):
    """Self-attention, attention to a memory in a decoder, feed-forward; norms first."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, cross: bool) -> None:
        super().__init__()
        self.mix, self.cross = Attend(width, heads), Attend(width, heads) if cross else None
        self.ffn = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None, memory: Tensor | None = None) -> Tensor:
        normed = self.norms[0](x)
        own = None if self.cross is not None else mask
        x = x + self.drop(self.mix(normed, normed, own, causal=self.cross is not None))
        if self.cross is not None and memory is not None:
            x = x + self.drop(self.cross(self.norms[1](x), memory, mask))
        return torch.as_tensor(x + self.drop(self.ffn(self.norms[2](x))))


class Plain(nn.Module):
    """A Transformer that translates."""

    def __init__(self, vocabulary: int, width: int, heads: int, hidden: int, depth: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.words = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.words.weight, std=width**-0.5)
        self.encoder = nn.ModuleList(Layer(width, heads, hidden, dropout, cross=False) for _ in range(depth))
        self.decoder = nn.ModuleList(Layer(width, heads, hidden, dropout, cross=True) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.drop = nn.Dropout(dropout)
        angles = torch.arange(1024)[:, None] / 10_000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("places", torch.cat((angles.sin(), angles.cos()), -1))

    def embed(self, tokens: Tensor) -> Tensor:
        places = self.get_buffer("places")[: tokens.shape[1]]
        return torch.as_tensor(self.drop(self.words(tokens) * self.width**0.5 + places))

    def forward(self, source: Tensor, valid: Tensor, target: Tensor) -> Tensor:
        mask, x, y = valid[:, None, None], self.embed(source), self.embed(target)
        for layer in self.encoder:
            x = layer(x, mask)
        x = self.norms[0](x)
        for layer in self.decoder:
            y = layer(y, mask, x)
        return F.linear(self.norms[1](y), self.words.weight)


def train(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Target tokens a second, on the very batches that ours has."""
    from regard.data.batches import Batch
    from regard.runs.folder import Run

    if settings["kind"] != "transformer":
        raise Missing("the plain loop is a Transformer's")
    torch.set_num_threads(settings["threads"])
    run = Run.open(Path(settings["run"]))
    vocabulary = len(run.prepared().lexicon.tokenizers[1])

    def measure() -> float:
        torch.manual_seed(1)
        model = Plain(vocabulary, *(settings[name] for name in ("width", "heads", "hidden", "depth", "dropout")))
        optimizer = torch.optim.AdamW(model.parameters(), 0.001)
        batches: Iterator[Batch] = (place.batch for place in run.trainer().task.batches(0, 0))
        began, tokens = 0.0, 0
        for number, batch in enumerate(batches):
            if number == WARMUP:
                began, tokens = time.perf_counter(), 0
            source, target = batch.source, batch.target
            logits = model(source.tokens, source.real, target.tokens[:, :-1])
            labels = target.tokens[:, 1:].masked_fill(~target.real[:, 1:], -100)
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=SMOOTHING)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            tokens += batch.tokens
            loss.item()
            if number > WARMUP and time.perf_counter() - began > settings["seconds"]:
                break
        return tokens / (time.perf_counter() - began)

    return measure


def train_language(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Tokens a second of the loop that nanoGPT's README describes for a laptop (bench/language.py has it)."""
    from bench.language import CONTEXT, ROWS, Plain, cost, drawn

    torch.set_num_threads(settings["threads"])
    text = Path(settings["corpus"], "input.txt").read_text()
    letters = {letter: number for number, letter in enumerate(sorted(set(text)))}

    def measure() -> float:
        torch.manual_seed(1)
        data, model = torch.tensor([letters[letter] for letter in text]), Plain(len(letters))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3, (0.9, 0.99))
        began, steps = 0.0, -WARMUP
        while steps < 1 or time.perf_counter() - began < settings["seconds"]:
            if steps == 0:
                began = time.perf_counter()
            loss = cost(model, *drawn(data))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            loss.item()
            steps += 1
        return steps * CONTEXT * ROWS / (time.perf_counter() - began)

    return measure


def write_recurrent(settings: Mapping[str, Any]) -> Callable[[], float]:
    """New tokens a second of an `nn.LSTM` that is called token by token."""
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(1)
    width = settings["width"]
    words = nn.Embedding(settings["vocabulary"], width)
    network = nn.LSTM(width, width, settings["depth"], batch_first=True).eval()
    bias = torch.zeros(settings["vocabulary"])
    prompts = torch.tensor(draw_rows(settings))

    @torch.inference_mode()
    def continue_rows() -> int:
        state, tokens = None, prompts
        for _ in range(settings["steps"]):
            outputs, state = network(words(tokens), state)
            tokens = F.linear(outputs[:, -1], words.weight, bias).argmax(-1, keepdim=True)
        return int(settings["steps"] * len(prompts))

    return rate(continue_rows, settings)


def remember(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Megabytes at most of attention whose softmax is written out, forward and backward, above what it is given."""
    torch.set_num_threads(settings["threads"])
    time, width, heads = settings["time"], settings["width"], settings["heads"]
    query, key, value, out = (nn.Linear(width, width) for _ in range(4))
    x = torch.randn(1, time, width, requires_grad=True)

    def learn() -> None:
        q, k, v = (part(x).unflatten(-1, (heads, -1)).transpose(1, 2) for part in (query, key, value))
        later = torch.ones(time, time, dtype=torch.bool).triu(1)
        scores = (q @ k.mT * (width // heads) ** -0.5).masked_fill(later, float("-inf"))
        found = scores.softmax(-1) @ v
        out(found.transpose(1, 2).flatten(2)).sum().backward()

    return gauge("memory", learn)


def slide(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Milliseconds or megabytes of the fused kernel over all pairs, forward and backward; a table hides far ones."""
    torch.set_num_threads(settings["threads"])
    layer = Attend(settings["width"], settings["heads"])
    x = torch.randn(1, settings["time"], settings["width"], requires_grad=True)
    # the table is made once, and counts for nothing
    near = torch.ones(settings["time"], settings["time"], dtype=torch.bool).tril().triu(1 - settings["window"])
    return gauge(settings["what"], lambda: layer(x, x, near).sum().backward())


JOBS = {
    "train": train,
    "train_language": train_language,
    "write_recurrent": write_recurrent,
    "remember": remember,
    "slide": slide,
}

if __name__ == "__main__":
    serve(JOBS, "torch")
