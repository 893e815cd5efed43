"""Drawing pictures pixel by pixel: each is drawn from what the model expects after those before it, and read in turn.

A picture has luck of its own, one number a pixel, so its neighbours in a batch don't change what it becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.core.model import Model
from regard.data.array import describe
from regard.data.canvas import Picture
from regard.data.given import GivenPicture, name_picture, open_picture
from regard.data.log import Unusable
from regard.data.picture import fit_picture
from regard.data.pixel import PixelCoder, find_grey
from regard.decode.engine import Beginning, Choice, Engine, Request, Scorer, Turn
from regard.decode.pipeline import PicturePipeline
from regard.errors import InputError

ROWS = 64  # pictures that are drawn side by side at most
STATES = 2**29  # bytes that may be remembered of them
SCORED = 2**15  # positions that are measured at once
TABLE = 2**22  # scores that are held at once
Advance = Callable[[int], None]  # told how many pixels more are drawn, or pictures more are measured


def ignore(count: int) -> None:
    """Tell nobody."""


@dataclass
class Drawing:
    """A picture that was drawn."""

    picture: Picture
    nats: float  # minus the model's own log-probability of all that was drawn, given what wasn't


class Painting(Request):
    """Pictures on their way: all go on from the same first tokens, each with its own luck."""

    def __init__(self, model: Model, given: Tensor, luck: Tensor, temperature: float, advance: Advance) -> None:
        rows, self.length = luck.shape
        super().__init__(range(rows), ())
        self.model, self.given, self.luck = model, given, luck
        self.temperature, self.advance = temperature, advance
        self.tokens = torch.zeros(rows, 0, dtype=torch.long)  # (rows, drawn), once it is done
        self.logs = torch.zeros(rows, 0)

    def start(self, scorer: Scorer, written: Tensor) -> Beginning:
        # read once, and then remembered by every row
        state = self.model.start(1, room=len(self.given) + self.length - 1)
        return Beginning(state, self.given[None])

    def choose(self, turn: Turn) -> Choice:
        tokens = self._draw(turn.own, self.luck[:, turn.written])
        self.advance(len(tokens))
        rows = list(range(len(tokens)))
        if turn.written + 1 == self.length:
            own = turn.own.gather(1, tokens[:, None])
            self.tokens = torch.cat((turn.context.tokens, tokens[:, None]), 1)
            self.logs, rows = torch.cat((turn.trail.logs, own), 1), []
        return Choice(rows, tokens[rows].tolist())

    def _draw(self, own: Tensor, luck: Tensor) -> Tensor:
        """The level below which so much of the probability lies as luck says; without temperature, the likeliest."""
        if not self.temperature:
            return own.argmax(-1)
        reached = (own.double() / self.temperature).softmax(-1).cumsum(-1)
        tokens = (reached <= luck[:, None] * reached[:, -1:]).sum(-1)
        return tokens.clamp(max=own.shape[-1] - 1)


@dataclass(repr=False)
class Painter(PicturePipeline):
    """A model that learned pictures pixel by pixel: it draws new ones, completes them, and says how likely one is.

    >>> import regard
    >>> painter = regard.load("runs/pixels", kind=regard.Painter)
    >>> [drawing.picture.shape for drawing in painter.sample(2, seed=1)]  # height, width, channels
    [(8, 8, 1), (8, 8, 1)]
    """

    usage: ClassVar[str] = "sample {}"
    verbs: ClassVar[tuple[str, ...]] = ("sample", "complete", "score")
    model: Model
    coder: PixelCoder

    def read(self, picture: GivenPicture) -> Picture:
        """A picture, or the one in a file, in the size that the model draws."""
        found, told, coder = open_picture(picture), name_picture(picture), self.coder
        if coder.binarise != "none" and found.max() == 1:
            raise InputError(
                f"{told}its largest value is 1, and the model makes greys of 0 to 255 black or white",
                "255 * picture, where 1 is white",
            )
        try:
            fitted = fit_picture(found, (coder.height, coder.width), self.fit, coder.channels)
        except Unusable:
            raise InputError(
                f"{told}the picture is {describe(found)}, and the model draws bytes, {coder.shape}",
                f"--fit resize, crop or pad, to {coder.height} × {coder.width}" if found.dtype == np.uint8 else "bytes",
            ) from None
        if coder.takes_two and fitted.dtype == np.uint8 and (grey := find_grey(fitted)) is not None:
            raise InputError(
                f"{told}a value of it is {grey}, and the model knows black and white alone",
                f"a picture of {coder.height} × {coder.width} whose values are 0 and 255",
            )
        return fitted

    def sample(
        self, count: int = 1, temperature: float = 1.0, seed: int = 0, *, advance: Advance = ignore
    ) -> list[Drawing]:
        """New pictures; the first ones of a seed are the same however many are asked for."""
        return self._draw(np.zeros(0, np.int64), count, temperature, seed, advance)

    def complete(
        self,
        picture: GivenPicture,
        rows: int | None = None,
        *,
        pixels: int | None = None,
        count: int = 1,
        temperature: float = 1.0,
        seed: int = 0,
        advance: Advance = ignore,
    ) -> list[Drawing]:
        """Pictures whose first rows are given and whose rest is drawn; `pixels`: the first ones of the model's order.

        Where it was trained on black and white, the given ones become so as they did in training.
        """
        given = self.count_given(rows, pixels)
        tokens = self.coder.encode(self.read(picture)[None])[0, :given]
        return self._draw(tokens, count, temperature, seed, advance)

    def count_given(self, rows: int | None, pixels: int | None) -> int:
        """The tokens that are given by so many rows, or by so many pixels; half of the picture unless told."""
        coder = self.coder
        if rows is not None and pixels is not None:
            raise InputError(f"rows {rows} and pixels {pixels}: which of them are given?", "one of them")
        name, number, most = (
            ("rows", rows, coder.height) if pixels is None else ("pixels", pixels, coder.height * coder.width)
        )
        number = most // 2 if number is None else number
        if not 0 <= number < most:
            raise InputError(f"{name} {number}: the model draws pictures with {most} {name}", f"0 to {most - 1}")
        return coder.count_given(number) if name == "rows" else number * coder.channels

    def score(self, picture: GivenPicture) -> float:
        """How unlikely a picture is, in nats: minus the logarithm of its probability."""
        return float(self.score_all(self.read(picture)[None])[0])

    def score_all(self, pictures: NDArray[Any] | Sequence[Picture], advance: Advance = ignore) -> NDArray[np.float64]:
        """The same of many pictures, (rows,), each by itself."""
        coder, found = self.coder, [np.zeros(0)]
        many = max(1, SCORED // coder.length)
        for first in range(0, len(pictures), many):
            group = np.stack(list(pictures[first : first + many]))
            found.append(measure_nats(self.model, coder.encode(group), coder.begin))
            advance(len(group))
        return np.concatenate(found)

    def _draw(
        self, given: NDArray[np.int64], count: int, temperature: float, seed: int, advance: Advance
    ) -> list[Drawing]:
        if count < 1 or not 0 <= temperature < float("inf"):
            raise InputError(
                f"count {count} and temperature {temperature}: at least one picture, and a number from 0 on"
            )
        model, coder = self.model, self.coder
        read = torch.tensor([coder.begin, *given.tolist()], device=model.device)
        size = model.start(1, room=coder.length).nbytes
        many = max(1, min(ROWS, STATES // max(1, size)))
        found: list[Drawing] = []
        with model.in_use():
            while len(found) < count:
                numbers = range(len(found), min(count, len(found) + many))
                luck = torch.stack([draw_luck(seed, number, coder.length - len(given)) for number in numbers])
                request = Painting(model, read, luck.to(model.device), temperature, advance)
                Engine(model).run(request)
                tokens = request.tokens.cpu().numpy()
                whole = np.concatenate((np.repeat(given[None], len(tokens), 0), tokens), 1)
                nats = (-request.logs.double().sum(1)).tolist()
                found += [Drawing(*pair) for pair in zip(coder.decode(whole), nats, strict=True)]
        return found


def draw_luck(seed: int, number: int, count: int) -> Tensor:
    """A picture's own luck: a number from 0 to 1 for each of its pixels, (count,)."""
    raw = np.random.Philox(key=(seed % 2**64) << 64 | number).random_raw(count)
    return torch.from_numpy((raw >> 11) * 2.0**-53)


@torch.no_grad()
def measure_nats(model: Model, tokens: NDArray[np.int64], begin: int) -> NDArray[np.float64]:
    """Minus the log-probability of each row of tokens, (rows,), in nats."""
    targets = torch.from_numpy(tokens).to(model.device)
    features = model.features(shift(targets, begin)).flatten(0, 1)  # (rows * length, width)
    factors, wanted = model.scored(features), targets.flatten()
    many = max(1, TABLE // len(factors.words))
    costs = [
        F.cross_entropy(factors.at(piece).table().float(), wanted[piece], reduction="none")
        for piece in (slice(first, first + many) for first in range(0, len(wanted), many))
    ]
    found: NDArray[np.float64] = torch.cat(costs).view(targets.shape).double().sum(1).cpu().numpy()
    return found


def shift(targets: Tensor, begin: int) -> Tensor:
    """What a model reads to predict these: the token that begins a picture, and all of them but the last."""
    return torch.cat((targets.new_full((len(targets), 1), begin), targets[:, :-1]), 1)
