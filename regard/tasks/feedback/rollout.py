"""Rollouts: answers that a model draws to prompts, many at a time, and what is known of every token of them.

Prompts of any lengths are stepped together, and a row that has ended leaves. What is drawn for a row follows from its
own seed alone, so a run that goes on draws the same. A round keeps what was drawn with the log-probabilities of that
moment, and all of it can be saved in the middle.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

import torch
from torch import Tensor

from regard.core.factors import WordHead
from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.data.dialogue import Transcript
from regard.decode.continuation import PromptBatch
from regard.decode.engine import Engine
from regard.decode.search import Search
from regard.tasks.feedback.likelihood import AnswerBatch

AT_ONCE = 512  # rows that are stepped together: what they remember must fit the memory


@dataclass(frozen=True)
class Sampling:
    """How answers are drawn."""

    end: int  # the token that ends one
    pad: int
    most: int  # tokens of an answer, its end included
    temperature: float = 1.0
    ends: bool = True  # False: every answer has the most tokens, and its end is never drawn

    def take_logs(self, scores: Tensor) -> Tensor:
        """Log-probabilities of what may be drawn, from a model's scores: (…, vocabulary)."""
        scores = scores / self.temperature
        scores = scores.float() if scores.dtype.itemsize < 4 else scores  # sums over a vocabulary need all the digits
        if not self.ends:
            scores = scores.index_fill(-1, torch.tensor([self.end], device=scores.device), -torch.inf)
        return scores.log_softmax(-1)


def average_logs(logs: Tensor, values: Tensor) -> Tensor:
    """Σ p · value over a vocabulary; what can't be drawn has no part in it, whatever its value."""
    return (logs.exp() * values.masked_fill(logs.isneginf(), 0.0)).sum(-1)


def draw_answers(
    model: Model, prompts: Sequence[Sequence[int]], seeds: Sequence[int] | None, how: Sampling, samples: int = 1
) -> list[list[int]]:
    """Answers in tokens, those of a prompt together; each has its end as the last, unless `most` cut it.

    `seeds`: the luck of each answer; None: each token is the likeliest.
    """
    least = None if how.ends else how.most
    search = Search(sample=seeds is not None, temperature=how.temperature, min_tokens=least, max_tokens=how.most)
    many, written = max(1, AT_ONCE // samples), list[list[int]]()
    with rest(model):
        for first in range(0, len(prompts), many):
            some = prompts[first : first + many]
            luck = None if seeds is None else seeds[first * samples : (first + len(some)) * samples]
            rows = Inputs.pad(some, how.pad).to(model.device)
            batch = PromptBatch(model, rows, search, (how.end,), samples, luck)
            Engine(model).run(batch)
            written += batch.written
    return written


@contextmanager
def rest(model: Model) -> Iterator[Model]:
    """The model as it is used: no gradients, no dropout."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield model
    finally:
        model.train(training)


@dataclass
class Appraisal:
    """What a model says of every token of answers: (rows, time), 0 where there is none."""

    logs: Tensor  # of their probabilities
    entropy: Tensor  # of what could have been said in their place, in nats
    values: Tensor | None = None  # what was still to come, as the model's head foresaw it


def appraise(model: Model, batch: AnswerBatch, valid: Tensor, how: Sampling, values: bool) -> Appraisal:
    """What a model says of answers, in one pass over all tokens; `valid`: where they stand in (rows, time)."""
    batch = batch.to(model.device)
    features = model.features(batch.inputs)[batch.learned]  # (tokens, width)
    logs = how.take_logs(model.scored(features).table())  # (tokens, vocabulary)
    valid = valid.to(model.device)

    def lay(found: Tensor) -> Tensor:
        return found.new_zeros(valid.shape).masked_scatter(valid, found)

    own = logs.gather(1, batch.targets[batch.learned][:, None])[:, 0]
    head = model.head
    foreseen = head.values(features).to(logs.dtype) if values and isinstance(head, WordHead) else None
    entropy = -average_logs(logs, logs)
    return Appraisal(lay(own), lay(entropy), None if foreseen is None else lay(foreseen))


@dataclass
class Round:
    """Answers that one model drew, and what training asks of them."""

    epoch: int
    number: int  # of the round in its epoch
    prompts: list[list[int]]  # for each row, in tokens
    answers: list[list[int]]
    rewards: Tensor  # (rows,)
    tensors: dict[str, Tensor] = field(default_factory=dict)  # (rows, time): logs, reference, entropy, values, …

    @property
    def valid(self) -> Tensor:
        """Which places of (rows, time) hold a token."""
        sizes = torch.tensor([len(answer) for answer in self.answers])
        return torch.arange(int(sizes.max()))[None] < sizes[:, None]

    @property
    def tokens(self) -> int:
        return sum(map(len, self.answers))

    def tell(self, end: int) -> dict[str, float]:
        """What was drawn, in means over the answers; the divergence is that of what was drawn, in nats an answer."""
        gaps = self.tensors["logs"] - self.tensors["reference"]  # 0 where there is no token
        return {
            "reward": float(self.rewards.mean()),
            "kl": float(gaps.sum()) / len(self.answers),
            "entropy": float(self.tensors["entropy"].sum()) / self.tokens,  # of a token
            "length": self.tokens / len(self.answers),
            "cut": sum(answer[-1] != end for answer in self.answers) / len(self.answers),
        }

    def lay_out(self, rows: Sequence[int], pad: int) -> AnswerBatch:
        """Some rows as a model reads them."""
        scripts = list[Transcript]()
        for row in rows:
            script = Transcript()
            script.add(self.prompts[row], False)
            script.add(self.answers[row], True)
            scripts.append(script)
        return AnswerBatch.lay_out(scripts, pad)

    def pack(self) -> dict[str, Tensor]:
        """All of it as tensors, for a checkpoint."""
        flat = [token for rows in (self.prompts, self.answers) for row in rows for token in row]
        sizes = [list(map(len, rows)) for rows in (self.prompts, self.answers)]
        return {
            "place": torch.tensor([self.epoch, self.number]),
            "tokens": torch.tensor(flat),
            "sizes": torch.tensor(sizes),
            "rewards": self.rewards.cpu(),
            **{f"round.{name}": tensor.cpu() for name, tensor in self.tensors.items()},
        }

    @classmethod
    def unpack(cls, kept: Mapping[str, Tensor], device: torch.device) -> Round:
        epoch, number = kept["place"].tolist()
        sizes = kept["sizes"].tolist()
        rows = iter(kept["tokens"].split([*sizes[0], *sizes[1]]))
        prompts = [next(rows).tolist() for _ in sizes[0]]
        answers = [row.tolist() for row in rows]
        named = {name.removeprefix("round."): tensor for name, tensor in kept.items() if name.startswith("round.")}
        tensors = {name: tensor.to(device) for name, tensor in named.items()}
        return cls(epoch, number, prompts, answers, kept["rewards"].to(device), tensors)


def divide_rows(count: int, parts: int, chance: Random) -> list[list[int]]:
    """Rows in random order, in so many parts of like size; twice as many parts are halves of the same."""
    order = list(range(count))
    chance.shuffle(order)
    return [order[count * part // parts : count * (part + 1) // parts] for part in range(parts)]


@dataclass
class RoundLog:
    """What the journal is told: of the round, and of the batches since the last step."""

    figures: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    began: dict[str, float] = field(default_factory=dict)
    clipped: int = 0
    tokens: int = 0

    def start(self, part: str) -> None:
        self.began[part] = time.perf_counter()

    def stop(self, part: str) -> None:
        self.seconds[part] += time.perf_counter() - self.began.pop(part)

    @contextmanager
    def time(self, part: str) -> Iterator[None]:
        """Note how long it takes."""
        self.start(part)
        yield
        self.stop(part)

    def count_clipped(self, clipped: Tensor) -> None:
        self.clipped += int(clipped.sum())
        self.tokens += clipped.numel()

    def tell(self) -> dict[str, float]:
        """All of it; what was heard of batches is forgotten."""
        seconds = {f"{part}_seconds": self.seconds[part] for part in ("rollout", "reward", "update")}
        found = {**self.figures, "clipped": self.clipped / max(1, self.tokens), **seconds}
        self.clipped = self.tokens = 0
        self.seconds.clear()
        return found
