"""Taking in what a corpus gives: a task keeps of each sample what it can use, and says why it can't use another.

Pictures of a run have one size, so that a batch of them is one array. What a task has not fitted must be as large as
the first picture, and what isn't is left out and counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from regard.data.canvas import Picture
from regard.data.log import Log, Unusable
from regard.data.picture import show_size
from regard.data.sample import Form, FormSpec, Sample, place
from regard.data.sieve import Wants


@dataclass
class Receipt:
    """What a task takes of a corpus, one sample after another."""

    wants: Wants
    first: dict[str, Picture] = field(default_factory=dict)  # by field: an array of none of them, as a shape and a type

    def __post_init__(self) -> None:
        self.pictures = FormSpec.parse(self.form).list_pictures()

    @property
    def form(self) -> Form:
        return self.wants.form

    def take(self, sample: Sample, split: str, number: int, log: Log) -> Sample | None:
        """The sample as the task keeps it; None where it can't use it, and the log says why."""
        try:
            received = self.wants.receive(sample)
            self._compare(received)
        except Unusable as unusable:
            log.skip(place(sample, split, number), unusable.message)
            log.kept -= 1  # whoever read it has counted it
            return None
        return received

    def _compare(self, sample: Sample) -> None:
        """Insist that all pictures are like the first one."""
        for name in self.pictures:
            picture = sample[name]
            first = self.first.setdefault(name, np.empty((0, *picture.shape), picture.dtype))
            _insist_alike(picture, first)


def _insist_alike(picture: Picture, first: Picture) -> None:
    shape = first.shape[1:]
    if picture.dtype != first.dtype:
        raise Unusable(f"another type: {picture.dtype}, and the first picture is {first.dtype}")
    if picture.shape[2] != shape[2]:
        raise Unusable(
            f"other channels: {picture.shape[2]}, and the first picture has {shape[2]}; task.channels={shape[2]}"
        )
    if picture.shape != shape:
        told = f"task.size=[{shape[0]}, {shape[1]}] task.fit=resize, crop or pad"
        raise Unusable(f"another size: {show_size(picture.shape)}, and the first picture is {show_size(shape)}; {told}")
