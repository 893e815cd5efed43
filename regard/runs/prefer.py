"""Preferences that a reward makes: a model answers each prompt, and of two answers the one that earns more is chosen.

So a run may learn by DPO what PPO learns from the reward itself, and from its own model's answers rather than from
others' (Rafailov et al. 2023). What is drawn for a prompt follows from the seed and its place alone. Prompts may be the
beginnings of longer texts, as many tokens as chance says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from regard.data.dialogue import USER, find_format, say
from regard.data.sample import Sample
from regard.data.tokenizer import Tokenizer
from regard.decode.writer import Writer
from regard.errors import InputError, SpecError
from regard.host.meter import SILENT, Meter
from regard.runs.evaluate import TestSet, read_samples
from regard.runs.frontier import open_grader
from regard.runs.load import load_as
from regard.tasks.feedback.examiner import ROWS, Examiner
from regard.tasks.feedback.rollout import draw_answers
from regard.tasks.policy import PolicyTaskSpec

BEGINNING = 2000  # letters of a text that its first tokens are sought in


@dataclass(frozen=True)
class PairDrawing:
    """How answers are drawn, and pairs made of them."""

    pairs: int = 1  # of each prompt, no answer in two of them
    most: int = 64  # tokens of an answer
    temperature: float = 1.0
    prompts: int | None = None  # at most so many; None: all
    prefix: tuple[int, int] | None = None  # a prompt is this many first tokens of its text; None: all of it
    seed: int = 1


@dataclass
class Preferences:
    """Pairs as corpora have them, and how many there might have been."""

    pairs: list[dict[str, Any]] = field(default_factory=list)
    prompts: int = 0
    ties: int = 0  # pairs of which neither is better
    short: int = 0  # texts without a beginning of so many tokens
    precision: str = "fp32"  # what the weights of the model that answered were packed to


def draw_preferences(
    noun: str,
    reward: str,
    files: Sequence[str],
    how: PairDrawing,
    meter: Meter = SILENT,
    precision: str | None = None,
) -> Preferences:
    """Let a model answer the prompts of files twice, or several times two, and choose by a reward.

    `reward`: a kind, settings or a run that judges. A model that learned conversations reads prompts in its own format,
    another one writes on from where they stop. `precision`: what its weights are packed to; a judge's stay as they are.
    """
    writer = load_as(noun, Writer, "only one that writes has answers", precision)
    grader = open_grader(reward)
    chat = writer.format or find_format("plain")
    examiner = Examiner(writer.tokenizer, chat, grader.reward, how.most, how.temperature, 0.0, judge=grader.judge)
    samples = read_samples(None, PolicyTaskSpec(format=chat.name, reward=grader.reward), TestSet(files))
    found = Preferences(precision=writer.precision)
    if how.prefix is not None:
        samples, found.short = cut_prefixes(samples, writer.tokenizer, how)
    if how.prompts is not None and len(samples) > how.prompts:
        samples = Random(f"{how.seed}/prompts").sample(samples, how.prompts)
    insist_on_room(writer, examiner, samples)
    found.prompts = len(samples)
    with meter.watch("drawing answers", len(samples)) as advance:
        for first in range(0, len(samples), ROWS):
            some = samples[first : first + ROWS]
            for pair in draw_pairs(writer, examiner, some, first, how):
                found.pairs += [pair] if pair else []
                found.ties += not pair
            advance(len(some))
    return found


def insist_on_room(writer: Writer, examiner: Examiner, samples: Sequence[Sample]) -> None:
    """Refuse prompts that leave no room for an answer before anything is drawn."""
    limit = writer.model.limit
    if not samples:
        raise InputError("there are no prompts", "--data FILE, or a smaller --prefix")
    if limit is None:
        return
    for sample, prompt in zip(samples, examiner.encode(samples), strict=True):
        if len(prompt) + examiner.most - 1 > limit:
            told = (
                f"a prompt of {len(prompt)} tokens and {examiner.most} of an answer, and the model has {limit} places"
            )
            raise InputError(f"{sample.get('place', 'prompt')}: {told}", "--most N, or --prefix 2-8")


def draw_pairs(
    writer: Writer, examiner: Examiner, samples: Sequence[Sample], first: int, how: PairDrawing
) -> Iterator[dict[str, Any]]:
    """The pairs of some prompts; an empty one where both answers are the same or earn the same."""
    count = 2 * how.pairs
    luck = [Random(f"{how.seed}/{first + n // count}/{n % count}").getrandbits(62) for n in range(len(samples) * count)]
    answers = draw_answers(writer.model, examiner.encode(samples), luck, examiner.sampling, count)
    asked = [sample for sample in samples for _ in range(count)]
    texts, rewards = examiner.read(asked, answers), examiner.grade(asked, answers)
    for n in range(0, len(answers), 2):
        better, worse = (n, n + 1) if rewards[n] > rewards[n + 1] else (n + 1, n)
        usable = texts[n] != texts[n + 1] and texts[n].strip() and texts[n + 1].strip()
        if rewards[better] == rewards[worse] or not usable:
            yield {}
            continue
        cut = [
            name for name, row in (("chosen", better), ("rejected", worse)) if answers[row][-1] != examiner.sampling.end
        ]
        yield {
            "prompt": asked[n]["prompt"],
            "chosen": texts[better],
            "rejected": texts[worse],
            **({"unfinished": cut} if cut else {}),
            "rewards": [rewards[better], rewards[worse]],
        }


def cut_prefixes(samples: Sequence[Sample], tokenizer: Tokenizer, how: PairDrawing) -> tuple[list[Sample], int]:
    """Samples whose prompts are beginnings of what they were, and how many had none."""
    assert how.prefix is not None
    least, most = how.prefix
    if not 1 <= least <= most:
        raise SpecError(f"--prefix {least}-{most}: the first must be at least 1 and at most the second", "--prefix 2-8")
    found = list[Sample]()
    for number, sample in enumerate(samples):
        if len(sample["prompt"]) > 1:
            raise InputError(f"{sample.get('place', number)}: a conversation has no first tokens", "without --prefix")
        chance = Random(f"{how.seed}/prefix/{number}")
        text = cut_prefix(sample["prompt"][0]["content"], tokenizer, least, chance.randint(least, most))
        if text is not None:
            found.append({**sample, "prompt": [say(USER, text)]})
    return found, len(samples) - len(found)


def cut_prefix(text: str, tokenizer: Tokenizer, least: int, wanted: int) -> str | None:
    """The first tokens of a text, as many as wanted or fewer: they end with a word, and are read as the same tokens."""
    tokens = tokenizer.encode([text[:BEGINNING]])[0]
    for size in range(min(wanted, len(tokens) - 1), least - 1, -1):
        begun, more = tokenizer.decode([tokens[:size], tokens[: size + 1]])
        if (
            more.startswith(begun)
            and more[len(begun) :][:1].isspace()
            and tokenizer.encode([begun])[0] == tokens[:size]
        ):
            return begun
    return None
