"""Problems that take thought, as vectors of numbers: parity, logic, addition and sorting (Graves 2016, section 3).

Each has a size that says how hard it is. A model that decides how long it thinks can be watched: do its steps grow with
the size? A problem belongs to one split by a stable hash of its numbers, whatever the seed; where there are fewer than
a thousand problems of a size, each split has all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from math import comb, inf
from random import Random
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from regard.core.spec import Size
from regard.data.corpora.algorithms import FEW, TRIES, SizedSpec, natural
from regard.data.corpus import Split as CorpusSplit
from regard.data.sample import Form, Sample
from regard.data.split import split_by_hash
from regard.errors import SpecError

Vectors = NDArray[np.float32]  # (positions, numbers)
Solved = tuple[Vectors, list[str]]  # a problem, and the answers at each of its positions
NONE = "-"  # stands where a number has no digit
# truth tables of the ten gates that depend on both inputs, as rows (0,0) (0,1) (1,0) (1,1)
GATES = {
    "nor": (1, 0, 0, 0),
    "not-if": (0, 1, 0, 0),  # the second without the first
    "and-not": (0, 0, 1, 0),  # the first without the second
    "xor": (0, 1, 1, 0),
    "nand": (1, 1, 1, 0),
    "and": (0, 0, 0, 1),
    "xnor": (1, 0, 0, 1),
    "if": (1, 1, 0, 1),  # the second, if the first
    "if-not": (1, 0, 1, 1),  # the first, if the second
    "or": (0, 1, 1, 1),
}
TABLES = tuple(GATES.values())


def parity(random: Random, size: int, length: int = 64, scattered: bool = False) -> Solved:
    """One vector of `length` numbers, `size` of them 1 or -1 by chance and the others 0: is the count of 1s odd?

    The first ones are set, as where the published figures were measured; `scattered` sets any of them. That is far
    harder: few numbers don't tell how many there are by where they stand.
    """
    if size > length:
        raise SpecError(f"sizes: {size} of {length} numbers can't be set", f"sizes up to {length}, or length={size}")
    vector = np.zeros((1, length), np.float32)
    places = random.sample(range(length), size) if scattered else range(size)
    signs = random.getrandbits(size)
    vector[0, list(places)] = [1.0 if signs >> n & 1 else -1.0 for n in range(size)]
    return vector, ["odd" if signs.bit_count() % 2 else "even"]


def logic(random: Random, size: int, most: int = 10, longest: int = 10) -> Solved:
    """A sequence of vectors, each with two bits and `size` gates that follow each other; what comes out of the last?

    The first gate takes both bits, and each later one what came out before it, with the bit before that: of
    b(n) = gate(n)(b(n-1), b(n-2)). In later vectors the first bit is missing: it is the answer to the vector before.
    A vector has two numbers for the bits, and ten for each of `most` gates, which are 0 where there is no gate.
    """
    if size > most:
        raise SpecError(f"sizes: {size} gates don't fit into a vector with room for {most}", f"most={size}")
    time = random.randint(1, longest)
    vectors = np.zeros((time, 2 + len(TABLES) * most), np.float32)
    answers: list[str] = []
    before = 0
    for vector in vectors:
        first = before if answers else random.getrandbits(1)
        second = random.getrandbits(1)
        vector[:2] = 0 if answers else first, second
        for gate in range(size):
            chosen = random.randrange(len(TABLES))
            vector[2 + len(TABLES) * gate + chosen] = 1
            first, second = second, TABLES[chosen][2 * second + first]
        before = second
        answers.append(str(second))
    return vectors, answers


def add_several(random: Random, size: int, most: int = 5, longest: int = 5) -> Solved:
    """Numbers of up to `size` digits, one a vector; from the second on, the sum of all so far, digit by digit.

    There are two to `most` numbers. A vector has ten numbers for each of `longest` digits, the ones last, 0 where there
    is none.
    """
    if most < 2:
        raise SpecError(f"numbers: a sum takes two at least, and {most} are the most", "numbers=2")
    count = random.randint(2, most)
    digits = len(str(most * (10**longest - 1)))  # as many as the largest sum has
    vectors = np.zeros((count, longest, 10), np.float32)
    answers: list[str] = []
    total = 0
    for vector in vectors:
        number = natural(random, random.randint(1, size))
        written = str(number)
        for place, digit in enumerate(written, longest - len(written)):
            vector[place, int(digit)] = 1
        total += number
        answers.append(" ".join(str(total).rjust(digits).replace(" ", NONE)) if answers else "")
    return vectors.reshape(count, -1), answers


def sort_numbers(random: Random, size: int) -> Solved:
    """`size` numbers from a normal distribution, one a vector with a mark at the last; then their places in order.

    The answers come after the numbers, while nothing is to be read: where the smallest stood, counted from 1, then
    the next.
    """
    numbers = [random.gauss(0, 1) for _ in range(size)]
    vectors = np.zeros((2 * size, 2), np.float32)
    vectors[:size, 0] = numbers
    vectors[size - 1, 1] = 1
    # by the numbers as a model reads them, which are rounded
    places = np.argsort(vectors[:size, 0], kind="stable") + 1
    return vectors, [*[""] * size, *map(str, places.tolist())]


def choose_split(vectors: Vectors) -> Literal["train", "validation", "test"]:
    """The split of a problem, whatever the seed or the machine."""
    content = np.ascontiguousarray(vectors, "<f4").tobytes()
    return split_by_hash(int.from_bytes(blake2b(content, digest_size=8).digest()))


class ReasoningSpec(SizedSpec):
    """Problems of chosen sizes, as vectors of numbers."""

    gives: ClassVar[tuple[Form, ...]] = ("vectors",)

    def draw(self, random: Random, size: int) -> Solved:
        """A problem of some size."""
        raise NotImplementedError

    def count_problems(self, size: int) -> float:
        """How many problems of a size there are."""
        return inf

    def stream(self, form: Form, split: CorpusSplit) -> Iterator[Sample]:
        chance, sizes = Random(f"{self.kind} {split} {self.seed}"), self.bounds(split)
        if sizes[0] > sizes[1]:
            raise SpecError(f"sizes {sizes[0]} to {sizes[1]}: the first must be at most the second")
        self.draw(Random(0), sizes[1])  # a size that can't be drawn is refused before the first problem
        left = list(range(sizes[0], sizes[1] + 1))
        while left:
            size = chance.choice(left)
            drawn = (self.draw(chance, size) for _ in range(TRIES))
            few = self.count_problems(size) < FEW
            found = next((solved for solved in drawn if few or choose_split(solved[0]) == split), None)
            if found is None:
                left.remove(size)
                continue
            yield {"vectors": found[0], "answers": found[1], "size": size}


class Parity(ReasoningSpec):
    """Whether the number of 1s among -1, 0 and 1 is odd; all numbers are read at once."""

    kind: Literal["parity"] = "parity"
    sizes: tuple[Size, Size] = (1, 64)
    length: Size = 64
    """A vector has this many numbers."""
    scattered: bool = False
    """The numbers that aren't 0 stand anywhere, instead of first; that is much harder to learn."""

    def count_problems(self, size: int) -> float:
        return 2**size * (comb(self.length, size) if self.scattered else 1)

    def draw(self, random: Random, size: int) -> Solved:
        return parity(random, size, self.length, self.scattered)


class Logic(ReasoningSpec):
    """What a chain of logic gates makes of two bits, vector by vector."""

    kind: Literal["logic"] = "logic"
    sizes: tuple[Size, Size] = (1, 10)
    gates: Size = 10
    """A vector has room for this many gates."""
    longest: Size = 10
    """There are at most this many vectors."""

    def count_problems(self, size: int) -> float:
        chains = len(TABLES) ** size  # each with two bits before the first vector, and one before each later one
        return sum((4 * chains) * (2 * chains) ** (time - 1) for time in range(1, self.longest + 1))

    def draw(self, random: Random, size: int) -> Solved:
        return logic(random, size, self.gates, self.longest)


class Addition(ReasoningSpec):
    """The sums of several numbers, each read at once; the size is the number of digits."""

    kind: Literal["addition"] = "addition"
    sizes: tuple[Size, Size] = (1, 5)
    numbers: Size = 5
    """There are at most this many numbers."""

    def count_problems(self, size: int) -> float:
        return sum(10 ** (size * count) for count in range(2, self.numbers + 1))

    def draw(self, random: Random, size: int) -> Solved:
        longest = max(self.sizes[1], (self.test_sizes or self.sizes)[1])
        return add_several(random, size, self.numbers, longest)


class Sorting(ReasoningSpec):
    """The places of real numbers in order; the size is how many there are."""

    kind: Literal["sorting"] = "sorting"
    sizes: tuple[Size, Size] = (2, 15)

    def draw(self, random: Random, size: int) -> Solved:
        return sort_numbers(random, size)
