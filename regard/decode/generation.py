"""How a model from elsewhere is meant to generate: `generation_config.json`, or the same keys of an older config.json.

What is said there becomes the default of a translator or a writer, exactly as transformers computes it: penalties and
forbidden words look at what was read too, a forced token costs nothing, a score is divided by a power of the length.
What can't be computed here is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.data.origin import Origin
from regard.decode.search import Search
from regard.errors import CheckpointError, SpecError

NAME = "generation_config.json"
# settings of ours that a key stands for as it is
SAME = {
    "num_beams": "beam",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "typical_p": "typical",
    "repetition_penalty": "repetition",
    "no_repeat_ngram_size": "no_repeat",
}
# keys that change what is written and can't be computed here, with the values that change nothing
STRANGE: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("encoder_repetition_penalty", "guidance_scale"), (None, 1, 1.0)),
    **dict.fromkeys(("encoder_no_repeat_ngram_size", "epsilon_cutoff", "eta_cutoff", "diversity_penalty"), (None, 0)),
    "num_beam_groups": (None, 1),
    "token_healing": (None, False),
    "renormalize_logits": (None, False),
    **dict.fromkeys(
        (
            *("exponential_decay_length_penalty", "sequence_bias", "penalty_alpha", "dola_layers", "constraints"),
            *("force_words_ids", "stop_strings", "max_time", "top_h", "watermarking_config", "forced_decoder_ids"),
        ),
        (None,),
    ),
}
EARLY = {True: "full", False: "likely", None: "likely", "never": "sure"}


@dataclass(frozen=True)
class Generation:
    """What is said of generating; nothing where nothing is."""

    search: Mapping[str, Any] = field(default_factory=dict)  # settings of a Search
    opening: int | None = None  # the first token, whatever the model thinks
    closing: bool = False  # a text that reaches the limit ends there at no cost
    never: tuple[int, ...] = ()  # tokens that are never written
    not_first: tuple[int, ...] = ()  # tokens that aren't written first
    banned: tuple[tuple[int, ...], ...] = ()  # sequences that aren't written
    longest: int | None = None  # tokens, those that were read by the decoder among them
    shortest: int = 0  # the same
    new: int | None = None  # tokens that are written at most, the end among them
    least: int = 0  # tokens that are written at least

    @classmethod
    def read(cls, origin: Origin | None, ends: tuple[int, ...], vocabulary: int | None) -> Generation:
        """From what came with a model; `ends`: the tokens that end its texts; `vocabulary`: those that it can write."""
        if origin is None:
            return cls()
        where = NAME if NAME in origin.files else "config.json"
        told = ConfigReader(origin.json(where), where, vocabulary)
        told.insist_on_known()
        closing = told.token("forced_eos_token_id")
        if closing is not None and closing not in ends:
            raise told.wrong("forced_eos_token_id", f"and its texts end with {', '.join(map(str, ends))}")
        if told.keys.get("max_new_tokens") == 0:
            raise told.wrong("max_new_tokens", "and that leaves nothing to write")
        sequences = told.lists("bad_words_ids")
        return cls(
            told.search(),
            told.token("forced_bos_token_id"),
            closing is not None,
            told.tokens("suppress_tokens"),
            told.tokens("begin_suppress_tokens"),
            tuple(sequence for sequence in sequences if sequence not in [(end,) for end in ends]),
            told.number("max_length"),
            told.number("min_length") or 0,
            told.number("max_new_tokens"),
            told.number("min_new_tokens") or 0,
        )

    def most(self, read: int) -> int | None:
        """Tokens that may be written, the end among them, after so many that the decoder was given; None: not said."""
        if self.new is not None:
            return self.new
        return None if self.longest is None else max(1, self.longest - read)

    def minimum(self, read: int) -> int:
        """Tokens before the end."""
        return max(self.least, self.shortest - read, 0)

    def insist_on_a_prompt(self) -> None:
        """Refuse what only a decoder beside an encoder can keep to."""
        if self.opening is not None or self.closing:
            raise CheckpointError(
                f"{NAME}: forced_bos_token_id or forced_eos_token_id, and a text after a prompt has no place for it",
                "delete the key to generate without it",
            )

    @property
    def for_translation(self) -> dict[str, Any]:
        """Settings of a search whose decoder has read one token when it begins."""
        most, least = self.most(1), self.minimum(1)
        # a text that the limit cuts has one token more where the end isn't forced: theirs has no end then
        limit = {} if most is None else {"max_tokens": max(1, most - self.closing)}
        least = min(least, limit.get("max_tokens", least))
        return dict(self.search) | ({"min_tokens": least} if least else {}) | limit


@dataclass(frozen=True)
class ConfigReader:
    """The keys of a file, looked at with care."""

    keys: Mapping[str, Any]
    where: str
    vocabulary: int | None  # tokens that the model can write

    def wrong(self, key: str, why: str) -> CheckpointError:
        hint = f"delete {key} from {self.where} to generate without it"
        return CheckpointError(f"{self.where}: {key} is {self.keys[key]!r}, {why}", hint)

    def insist_on_known(self) -> None:
        """Refuse what changes the output and can't be computed."""
        for key, neutral in STRANGE.items():
            if self.keys.get(key) not in neutral:
                raise self.wrong(key, "and that can't be computed here")

    def search(self) -> dict[str, Any]:
        """Settings of a search, as they are said; what depends on one another comes together."""
        found = {ours: self.keys[theirs] for theirs, ours in SAME.items() if self.keys.get(theirs) is not None}
        for theirs, ours in SAME.items():
            value = found.get(ours, 0)
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise self.wrong(theirs, "and it must be a number")
        sample = self.keys.get("do_sample")
        if sample is False and found.get("temperature") == 0:
            del found["temperature"]  # the same said twice
        for theirs, ours in SAME.items():
            try:
                Search.parse({ours: found[ours]} if ours in found else {})
            except SpecError as error:
                raise self.wrong(theirs, f"and that can't be computed here: {error.message}") from None
        if sample and found.get("beam", 1) > 1:
            raise self.wrong("num_beams", "and with do_sample its beams are drawn, which can't be computed here")
        if sample is not None:
            found["sample"] = bool(sample)
        if sample:
            found = {"temperature": 1.0, "top_k": 50} | found  # as theirs are where they aren't said
        power = self.keys.get("length_penalty")
        if power is not None and (not isinstance(power, int | float) or not 0 <= power <= 10):
            raise self.wrong("length_penalty", "and only 0 to 10 can be computed here")
        if power is not None or found.get("beam", 1) > 1:
            power = 1.0 if power is None else float(power)
            found |= {"length": "power", "alpha": power} if power else {"length": "none"}
            early = self.keys.get("early_stopping")
            if early not in EARLY:
                raise self.wrong("early_stopping", "and it is true, false or 'never'")
            found["until"] = EARLY[early]
        return found

    def number(self, key: str) -> int | None:
        value = self.keys.get(key)
        if value is not None and (type(value) is not int or value < 0):
            raise self.wrong(key, "and it must be a number from 0 on")
        return value

    def token(self, key: str) -> int | None:
        value = self.number(key)
        self.insist_on_rows(key, () if value is None else (value,))
        return value

    def insist_on_rows(self, key: str, tokens: Sequence[int]) -> None:
        """Refuse tokens that the model has no score for."""
        beyond = [token for token in tokens if self.vocabulary is not None and token >= self.vocabulary]
        if beyond:
            raise self.wrong(key, f"and {beyond[0]} isn't one of the model's {self.vocabulary} tokens")

    def tokens(self, key: str) -> tuple[int, ...]:
        value = self.keys.get(key) or []
        if not isinstance(value, list) or not all(type(token) is int and token >= 0 for token in value):
            raise self.wrong(key, "and it must be a list of tokens")
        self.insist_on_rows(key, value)
        return tuple(value)

    def lists(self, key: str) -> tuple[tuple[int, ...], ...]:
        value = self.keys.get(key) or []
        if not isinstance(value, list) or not all(isinstance(row, list) and row for row in value):
            raise self.wrong(key, "and it must be lists of tokens")
        return tuple(ConfigReader({key: row}, self.where, self.vocabulary).tokens(key) for row in value)
