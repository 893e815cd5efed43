"""What one writes with torch alone: fused attention, batches sorted by length, `F.cross_entropy`, `AdamW`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.harness import Missing, serve
from bench.sides.work import draw_rows, gauge, rate, slice_rows, tell_in_turn

if TYPE_CHECKING:  # the environment of the others, where some jobs run, doesn't have it
    from regard.data.batches import Batch
    from regard.runs.folder import Run

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
        self.ffn = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))
        self.norms = nn.ModuleDict(
            {part: nn.LayerNorm(width) for part in ("mix", *(["cross"] if cross else []), "ffn")}
        )
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None, memory: Tensor | None = None) -> Tensor:
        normed = self.norms["mix"](x)
        own = None if self.cross is not None else mask
        x = x + self.drop(self.mix(normed, normed, own, causal=self.cross is not None))
        if self.cross is not None and memory is not None:
            x = x + self.drop(self.cross(self.norms["cross"](x), memory, mask))
        return torch.as_tensor(x + self.drop(self.ffn(self.norms["ffn"](x))))


class Plain(nn.Module):
    """A Transformer that translates: the same function as our transformer-tiny, once it has the same weights."""

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
        self.register_buffer("places", torch.stack((angles.sin(), angles.cos()), -1).flatten(1), persistent=False)

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


# our names of a Transformer's weights, and what they are called here
NAMES = {
    r"decoder\.embedding\.tokens": "words",
    r"encoder\.norm": "norms.0",
    r"decoder\.norm": "norms.1",
    r"\.blocks": "",
    r"(mix|cross|ffn)\.norm": r"norms.\1",
    r"\.inner": "",
    r"output": "out",
    r"ffn\.up": "ffn.0",
    r"ffn\.down": "ffn.2",
}


def rename(name: str) -> str:
    for ours, here in NAMES.items():
        name = re.sub(ours, here, name)
    return name


def cost(model: Plain, batch: Batch, **how: Any) -> Tensor:
    """The cross-entropy of a batch's target."""
    source, target = batch.source, batch.target
    logits = model(source.tokens, source.real, target.tokens[:, :-1])
    labels = target.tokens[:, 1:].masked_fill(~target.real[:, 1:], -100)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), **how)


def step(model: Plain, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    loss = cost(model, batch, label_smoothing=SMOOTHING)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    loss.item()


def begin(settings: Mapping[str, Any]) -> tuple[Run, Callable[[], Plain]]:
    """A run of ours, whose batches it has, and what builds its model."""
    from regard.runs.folder import Run

    if settings["kind"] != "transformer":
        raise Missing("the plain loop is a Transformer's")
    torch.set_num_threads(settings["threads"])
    run = Run.open(Path(settings["run"]))
    vocabulary = len(run.prepared().lexicon.tokenizers[1])

    def build() -> Plain:
        torch.manual_seed(settings.get("seed", 1))
        return Plain(vocabulary, *(settings[name] for name in ("width", "heads", "hidden", "depth", "dropout")))

    return run, build


def train(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Target tokens a second, on the very batches that ours has."""
    from regard.host.machine import keep_memory

    run, build = begin(settings)
    if settings.get("keeps"):
        keep_memory()

    def measure() -> float:
        model = build()
        optimizer = torch.optim.AdamW(model.parameters(), 0.001)
        batches: Iterator[Batch] = (place.batch for place in run.trainer().task.batches(0, 0))
        began, tokens = 0.0, 0
        for number, batch in enumerate(batches):
            if number == WARMUP:
                began, tokens = time.perf_counter(), 0
            step(model, optimizer, batch)
            tokens += batch.tokens
            if number > WARMUP and time.perf_counter() - began > settings["seconds"]:
                break
        return tokens / (time.perf_counter() - began)

    return measure


def learn(settings: Mapping[str, Any]) -> Callable[[], float]:
    """The validation loss after so many target tokens, one point after the other.

    It begins with the weights that ours begins with, and has its very batches: what differs is how a step is computed.
    """
    from regard.data.batches import make_batch

    run, build = begin(settings)
    one, other = run.prepared().lexicon.tokenizers
    sources, targets = (Path(path).read_text(encoding="utf-8").splitlines() for path in settings["validation"])
    rows = sorted(zip(one.encode(sources), other.encode(targets), strict=True), key=lambda pair: len(pair[1]))
    groups = [
        make_batch([a for a, _ in group], [b for _, b in group], one.pad, other.begin, other.end)
        for group in slice_rows(rows, 64)
    ]

    @torch.no_grad()
    def validate(model: Plain) -> float:
        model.eval()
        total = sum(float(cost(model, group, reduction="sum")) for group in groups)
        model.train()
        return total / sum(group.tokens for group in groups)

    def train_once() -> list[float]:
        model, found, tokens = build(), list[float](), 0
        trainer = run.trainer()
        model.load_state_dict({rename(name): weight for name, weight in trainer.model.state_dict().items()})
        matrices = [weight for weight in model.parameters() if weight.dim() > 1]
        others = [weight for weight in model.parameters() if weight.dim() < 2]
        decays = [{"params": matrices, "weight_decay": settings["decay"]}, {"params": others, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(decays, settings["rate"], tuple(settings["betas"]))
        for number, place in enumerate(trainer.task.batches(0, 0), 1):
            share = min(number / settings["warmup"], (settings["warmup"] / number) ** 0.5)
            for group in optimizer.param_groups:
                group["lr"] = settings["rate"] * share
            step(model, optimizer, place.batch)
            tokens += place.batch.tokens
            while len(found) < len(settings["points"]) and tokens >= settings["points"][len(found)]:
                found.append(validate(model))
            if len(found) == len(settings["points"]):
                break
        return found

    return tell_in_turn(train_once)


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
    "learn": learn,
    "train_language": train_language,
    "write_recurrent": write_recurrent,
    "remember": remember,
    "slide": slide,
}

if __name__ == "__main__":
    serve(JOBS, "torch")
