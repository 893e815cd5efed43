"""Files from elsewhere: whatever is in them, a run loads or is refused; nothing else happens, and nothing in them runs.

A real run of two steps is damaged file by file, both as an accident would (its digest gives it away) and as somebody
would who means it (the digest is made to fit, so that the damage reaches the parser). F1, F2 and F3 of the promises.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import re
import resource
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import regard
from regard.config import Document, read
from regard.data.reader import choose_reader
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, SpecError
from regard.models import preset
from regard.runs.folder import Run
from regard.runs.load import load as loaded
from regard.train.checkpoint import MANIFEST, verify
from regard.train.moment import Moment
from regard.train.trainer import Trainer

PACKAGE = Path(regard.__file__).parent
SECONDS, BYTES = 2, 512 * 2**20  # what one load may take
STEP = "checkpoints/step-2"


@dataclass
class Tiny:
    """A run that was trained for two steps, and a trainer that can be put back to its end."""

    folder: Path
    tree: dict[str, Any]
    trainer: Trainer

    def seal(self, name: str) -> None:
        """Make the digest of a file fit what is in it now."""
        path = self.folder / name
        content = path.read_bytes()
        found = hashlib.sha256(content).hexdigest()
        if path.parent.name == "step-2" and path.name != MANIFEST:
            self.note(path.parent / MANIFEST, path.name, [len(content), found])
        if path.parent.name == "data" and path.name != "data.json":
            self.note(path.parent / "data.json", path.name, found)

    @staticmethod
    def note(path: Path, name: str, entry: Any) -> None:
        listed = json.loads(path.read_text())
        listed["files"][name] = entry
        path.write_text(json.dumps(listed))

    @contextmanager
    def replaced(self, name: str, content: bytes, sealed: bool) -> Iterator[None]:
        """The run with another content of one file, for as long as it takes."""
        path = self.folder / name
        kept = {
            item: item.read_bytes() for item in (path, self.folder / STEP / MANIFEST, self.folder / "data/data.json")
        }
        try:
            path.write_bytes(content)
            if sealed:
                self.seal(name)
            yield
        finally:
            for item, before in kept.items():
                item.write_bytes(before)


def sentences(count: int, chance: Random) -> str:
    words = ["a", "man", "woman", "dog", "cat", "sees", "likes", "the", "red", "green", "ball", "and", "two", "old"]
    lines = [" ".join(chance.choices(words, k=5)) for _ in range(count)]
    return "".join(json.dumps({"source": line, "target": line[::-1]}) + "\n" for line in lines)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "train.jsonl").write_text(sentences(60, Random(1)))
    (folder / "validation.jsonl").write_text(sentences(4, Random(2)))
    splits = {split: {"kind": "jsonl", "path": f"{split}.jsonl"} for split in ("train", "validation")}
    tree = {
        "data": str(folder),
        "corpus": {"kind": "files", **splits},
        "tokenizer": {"vocabulary": 200},
        "batches": {"tokens": 256},
        "model": {"kind": "transformer-tiny", "width": 16, "depth": 1, "heads": 2, "hidden": 32},
        "train": {"steps": 2},
        "device": "cpu",
        "out": str(folder / "run"),
    }
    run = Run.begin(Document(tree))
    trainer = run.trainer()
    trainer.run()
    found = Tiny(folder / "run", tree, trainer)
    for load in (translated, restored, batched):
        load(found)
    return found


def translated(tiny: Tiny) -> None:
    """Load a translator, and use it."""
    loaded(str(tiny.folder), "cpu").translate("a man", beam=1, max_tokens=2)


def restored(tiny: Tiny) -> None:
    """Go back to the checkpoint; where a run is must be told in numbers of the right type."""
    tiny.trainer.restore(verify(tiny.folder / STEP))
    for name, value in asdict(tiny.trainer.moment).items():
        usual = type(asdict(Moment())[name])
        assert type(value) in (usual, int if usual is float else usual), f"restored, and its {name} is {value!r:.50}"


def batched(tiny: Tiny) -> None:
    """Open the run, its data, and the first epoch of batches."""
    run = Run.open(tiny.folder)
    prepared = run.prepared()
    size = min(map(len, prepared.lexicon.tokenizers))
    places = run.assembly().task.build(prepared, run.spec.batches, run.spec.seed).batches(0, 0)
    try:
        for place in places:
            if place.epoch:
                break
            largest = int(max(place.batch.source.tokens.max(), place.batch.target.tokens.max()))
            assert largest < size, f"a batch holds token {largest}, and there are {size}"
    finally:
        places.close()


def opened(tiny: Tiny) -> None:
    """Open the run and its data."""
    Run.open(tiny.folder).prepared()


Load = Callable[[Tiny], None]
FILES: dict[str, tuple[Load, ...]] = {
    f"{STEP}/model.safetensors": (translated, restored),
    f"{STEP}/optimizer.safetensors": (restored,),
    f"{STEP}/generators.safetensors": (restored,),
    f"{STEP}/spec.json": (translated,),
    f"{STEP}/tokenizer.json": (translated,),
    f"{STEP}/lexicon.json": (translated,),
    f"{STEP}/state.json": (translated, restored),
    f"{STEP}/{MANIFEST}": (translated, restored),
    "run.yaml": (opened,),
    "data/data.json": (batched,),
    "data/tokenizer.json": (opened,),
    "data/lexicon.json": (opened,),
    "data/validation.jsonl": (batched,),
    "data/train.source": (batched,),
    "data/train.source.ends": (batched,),
    "data/train.target.ends": (batched,),
}
UNSIGNED = (f"{STEP}/{MANIFEST}", "run.yaml", "data/data.json")  # files whose digest nobody keeps


class Hang(BaseException):
    """A load that took too long."""


@contextmanager
def bounded() -> Iterator[None]:
    """No more than so many bytes on top of what there is: whoever asks for more gets an error, not memory."""
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held + BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def timed() -> Iterator[None]:
    """No longer than so many seconds of computing; twenty times that by the clock, since tests share the machine."""

    def late(*_: Any) -> None:
        raise Hang

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, SECONDS), (signal.SIGALRM, signal.ITIMER_REAL, 20 * SECONDS))
    before = {number: signal.signal(number, late) for number, _, _ in timers}
    began = time.process_time()
    for _, timer, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for number, timer, _ in timers:
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
    if time.process_time() - began > SECONDS:  # and somebody swallowed the alarm
        raise Hang


def fault(load: Load, tiny: Tiny, refusal: bool = False) -> str | None:
    """What is wrong with how a load ended: None if it went well, or was refused as it should be."""
    try:
        with timed():
            load(tiny)
    except RegardError:
        return None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        called = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
        ours = [f"{path.relative_to(PACKAGE)}:{line}" for path, line in called if path.is_relative_to(PACKAGE)]
        place = ours[-1] if ours else "here"
        return f"{type(error).__name__} in {place}: {re.sub(r'[0-9]+', '#', str(error).partition(chr(10))[0])[:120]}"
    return "loaded, although its digest is another" if refusal else None


@pytest.mark.parametrize(
    ("load", "told"),
    [
        (lambda _: torch.ones(2**31), "RuntimeError in here"),
        (lambda _: bytearray(2**33), "MemoryError in here"),
        (lambda _: time.sleep(9), "Hang in here"),
        (lambda _: sum(1 for _ in iter(int, 1)), "Hang in here"),
        (lambda _: {"a": 1}["b"], "KeyError in here"),
    ],
)
def test_what_takes_too_much_is_noticed(tiny: Tiny, load: Load, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if told.startswith("Hang"):  # the others fail by what they take, however slow the machine is
        monkeypatch.setitem(globals(), "SECONDS", 0.1)
    with bounded():
        assert told in str(fault(load, tiny))


STRANGE: list[Any] = [None, True, "", "x", "\0", "\ud800", "../../x", "x" * 300, -1, 0, 1, 7, 1.5, 1e308, -1e-320]
STRANGE += [float("nan"), float("inf"), 4096, 2**24, 2**31, 2**53, 2**63, 2**64, 10**30, 10**400, "@9@"]
STRANGE += [
    [],
    {},
    [[[]]],
    [[0, 1, 2]],
    {"kind": 3},
    {"kind": "model"},
    {"": ""},
    [7] * 1000,
    "@60@",
    "@900@",
    "@100000@",
]
NAMES = ["", "x", "kind", "\0", "\ud800", "../../x", "width", "x" * 300]


def unfolded(text: str) -> bytes:
    """JSON with what no tree in memory could stand for: lists in lists, a number of 5,000 digits."""
    text = text.replace('"@9@"', "9" * 5000)
    return re.sub(r'"@(\d+)@"', lambda match: "[" * int(match[1]) + "]" * int(match[1]), text).encode()


def altered(tree: Any, chance: Random) -> Any:
    """A tree with one thing in it replaced, removed, or called another name."""
    root: Any = [tree]
    node, key = root, 0
    while isinstance(node[key], dict | list) and node[key] and chance.random() < 0.75:
        node = node[key]
        key = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
    way = chance.random()
    if way < 0.75 or node is root:
        node[key] = chance.choice(STRANGE)
    else:
        value = node.pop(key)
        if way < 0.87 and isinstance(node, dict):
            node[chance.choice(NAMES)] = value
    return root[0]


def swapped(content: bytes, chance: Random) -> bytes:
    """JSON with something of another type in it; a safetensors file's header is JSON too."""
    if content[:1] == b"{":
        lines = content.decode().splitlines() if b"\n{" in content else [content.decode()]
        at = chance.randrange(len(lines))
        lines[at] = unfolded(json.dumps(altered(json.loads(lines[at]), chance))).decode()
        return "\n".join(lines).encode()
    size = int.from_bytes(content[:8], "little")
    header = unfolded(json.dumps(altered(json.loads(content[8 : 8 + size]), chance)))
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


SNIPPETS = [
    "!!python/object/apply:os.system ['true']",
    "!!python/name:os.system",
    "!!timestamp x",
    "!!int ''",
    "!!float ''",
    "!!bool x",
    "!!set {a, b}",
    "!!binary x",
    "2001-99-99",
    "&a [*a, *a]",
    "&a x",
    "*a",
    '"\\ud800"',
    '"\\0"',
    "0x" + "f" * 5000,
    "9" * 5000,
    "1" + ":1" * 300 + ".5",
    "1" + ":1" * 3000,
    "[" * 60 + "]" * 60,
    "[" * 300,
    "{a: " * 300,
    "{a: 1, a: 2}",
    ".nan",
    "-.inf",
    "1e999",
    "-1",
    "1000000000000",
    "null",
    "[]",
    "{}",
    "<<",
    "=",
    "|\n",
]


def rewritten(content: bytes, chance: Random) -> bytes:
    """YAML with another value on one line."""
    lines = content.decode().splitlines()
    at = chance.randrange(len(lines))
    lines[at] = f"{lines[at].partition(':')[0]}: {chance.choice(SNIPPETS)}"
    return ("\n".join(lines) + "\n").encode()


def laughing(content: bytes, chance: Random) -> bytes:
    """YAML whose aliases would unfold to more than any memory holds."""
    lines = ["a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, chance.randrange(2, 40))]
    return "\n".join([*lines, content.decode()]).encode()


def flipped(content: bytes, chance: Random) -> bytes:
    found = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 8))):
        found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    return bytes(found)


def cut(content: bytes, chance: Random) -> bytes:
    return content[: chance.randrange(len(content))]


def stuffed(content: bytes, chance: Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    pieces = [b"[", b"{", b'"', b",", b":", b"\0", b"\n", b"-", b"9" * 20, b"NaN", b"\\", chance.randbytes(4)]
    return content[:at] + chance.choice(pieces) + content[at:]


def doubled(content: bytes, chance: Random) -> bytes:
    first, last = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    return content[:last] + content[first:last] + content[last:]


def shuffled(content: bytes, chance: Random) -> bytes:
    """Numbers of eight bytes, one of them another: where sentences end."""
    ends = np.frombuffer(content[: len(content) // 8 * 8], "<i8").copy()
    ends[chance.randrange(len(ends))] = chance.choice([-1, 0, 1, 10**6, 2**31, 2**40, 2**62, -(2**62)])
    return bytes(ends.tobytes())


BYTEWISE = (flipped, cut, stuffed, doubled)


def ways(name: str) -> list[Callable[[bytes, Random], bytes]]:
    """How a file can be mutated; the ways that know its format as often as those that don't."""
    if name.endswith((".json", ".jsonl", ".safetensors")):
        return [*BYTEWISE, *[swapped] * len(BYTEWISE)]
    if name.endswith(".yaml"):
        return [*BYTEWISE, *[rewritten] * len(BYTEWISE), laughing]
    return [*BYTEWISE, *[shuffled] * len(BYTEWISE)]


@pytest.mark.parametrize("count", [72, pytest.param(720, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", FILES)
def test_a_mutated_file_loads_or_is_refused(tiny: Tiny, name: str, count: int) -> None:
    content = (tiny.folder / name).read_bytes()
    faults: dict[str, list[str]] = {}
    with bounded():
        for number in range(count):
            chance = Random(f"{name}/{number}")
            way, sealed = chance.choice(ways(name)), chance.random() < 0.8
            mutated = way(content, chance)
            caught = not sealed and name not in UNSIGNED and mutated != content
            with tiny.replaced(name, mutated, sealed):
                for load in FILES[name]:
                    if found := fault(load, tiny, refusal=caught):
                        faults.setdefault(found, []).append(f"{number} ({way.__name__}, {load.__name__})")
    told = [f"{found}\n    mutations {', '.join(places[:5])}" for found, places in faults.items()]
    assert not told, f"{name}:\n" + "\n".join(told)
    assert (tiny.folder / name).read_bytes() == content


def systematic(tree: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """A tree with each thing in it replaced by each strange one, and with each thing removed; and what was done."""
    yield from ((f"{place} {strange!r:.50}", strange) for strange in STRANGE)
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        fewer = tree.copy()
        del fewer[key]
        yield f"{place}/{key} removed", fewer
        for done, other in systematic(tree[key], f"{place}/{key}"):
            changed = tree.copy()
            changed[key] = other
            yield done, changed


@pytest.mark.long
@pytest.mark.parametrize("name", [f"{STEP}/state.json", f"{STEP}/spec.json", f"{STEP}/{MANIFEST}", "data/data.json"])
def test_no_value_anywhere_in_a_json_file_breaks_a_load(tiny: Tiny, name: str) -> None:
    tree, faults = json.loads((tiny.folder / name).read_text()), dict[str, str]()
    with bounded():
        for done, changed in systematic(tree):
            with tiny.replaced(name, unfolded(json.dumps(changed)), sealed=True):
                for load in FILES[name]:
                    if found := fault(load, tiny):
                        faults.setdefault(found, done)
    assert not faults, f"{name}:\n" + "\n".join(f"{found}: {done}" for found, done in faults.items())


def edited(**changes: Any) -> Callable[[bytes], bytes]:
    """JSON with some settings changed; `decoder__depth` is the depth in the decoder."""

    def change(content: bytes) -> bytes:
        tree = json.loads(content)
        for place, value in changes.items():
            *path, last = place.split("__")
            node = tree
            for part in path:
                node = node[int(part) if part.isdigit() else part]
            node[last] = value
        return unfolded(json.dumps(tree))

    return change


def headed(**changes: Any) -> Callable[[bytes], bytes]:
    """A safetensors file of one tensor, which isn't there, described so."""

    def change(_: bytes) -> bytes:
        header = json.dumps({"x": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} | changes}).encode()
        return len(header).to_bytes(8, "little") + header

    return change


def retyped(dtype: str) -> Callable[[bytes], bytes]:
    """The same weights as numbers of another type, of one byte each."""

    def change(content: bytes) -> bytes:
        size = int.from_bytes(content[:8], "little")
        header, at = json.loads(content[8 : 8 + size]), 0
        for entry in header.values():
            count = int(np.prod(entry["shape"]))
            entry |= {"dtype": dtype, "data_offsets": [at, at + count]}
            at += count
        packed = json.dumps(header).encode()
        return len(packed).to_bytes(8, "little") + packed + bytes(at)

    return change


def huge(content: bytes) -> bytes:
    """Weights that are finite, and no sum of them is."""
    size = 8 + int.from_bytes(content[:8], "little")
    return content[:size] + np.full((len(content) - size) // 4, 3e38, "<f4").tobytes()


def lined(key: str, value: str) -> Callable[[bytes], bytes]:
    """A run file with another value of a key of its first level."""
    return lambda content: re.sub(rf"(?m)^{key}: .*$", lambda _: f"{key}: {value}", content.decode()).encode()


def filled(number: int) -> Callable[[bytes], bytes]:
    """The same, with a number of eight bytes in the middle."""
    at = 160
    return lambda content: content[:at] + number.to_bytes(8, "little", signed=True) + content[at + 8 :]


def renumbered(content: bytes) -> bytes:
    """A tokenizer whose pieces, but for the special ones, have numbers that are too large for the model."""
    tree = json.loads(content)
    vocabulary = tree["model"]["vocab"]
    tree["model"]["vocab"] = {piece: n if n < 4 else n + 1000 for piece, n in vocabulary.items()}
    return json.dumps(tree).encode()


DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
MULTIPLY = {"type": "Sequence", "normalizers": [DOUBLE] * 14}  # two letters become 32,768
STATE, SPEC, CUT = f"{STEP}/state.json", f"{STEP}/spec.json", f"{STEP}/tokenizer.json"
WEIGHTS, OPTIMIZER = f"{STEP}/model.safetensors", f"{STEP}/optimizer.safetensors"
UNKNOWN = {f"x{number}": 0 for number in range(50_000)}
TRICKS: dict[str, tuple[str, Callable[[bytes], bytes], Load]] = {
    "a moment that is a list": (STATE, edited(moment=[]), translated),
    "a ranking that is a number": (STATE, edited(moment__ranking=3), translated),
    "a ranking of numbers": (STATE, edited(moment__ranking=[3]), translated),
    "a ranking of nothing": (STATE, edited(moment__ranking=[[]]), translated),
    "a ranking by name": (STATE, edited(moment__ranking={"a": 1}), translated),
    "a ranking that leads elsewhere": (STATE, edited(moment__ranking=[[0, "2/../step-9"]]), translated),
    "a ranking at infinity": (STATE, edited(moment__ranking=[[0, float("inf")]]), restored),
    "a measure beyond floats": (STATE, edited(moment__ranking=[[10**400, 2]]), restored),
    "a step that is a word": (STATE, edited(moment__step="2"), restored),
    "seconds that are a list": (STATE, edited(moment__seconds=[]), restored),
    "a moment with a stranger": (STATE, edited(moment__x=1), restored),
    "a spec that is deep": (SPEC, edited(init="@900@"), translated),
    "a spec whose kind is deep": (SPEC, edited(decoder__blocks="@900@"), translated),
    "a spec with a number of 5,000 digits": (SPEC, edited(decoder__width="@9@"), translated),
    "a spec with a number of 400 digits": (SPEC, edited(decoder__width=10**400), translated),
    "a spec with 50,000 strangers": (
        SPEC,
        lambda content: json.dumps(json.loads(content) | UNKNOWN).encode(),
        translated,
    ),
    "a spec of 4,096 layers": (SPEC, edited(decoder__depth=4096, encoder__depth=4096), translated),
    "a spec of 50,000 blocks": (SPEC, edited(decoder__first=[{"kind": "block"}] * 50_000), translated),
    "a spec as wide as can be": (SPEC, edited(decoder__width=2**24, encoder__width=2**24), translated),
    "a vocabulary as large as can be": (SPEC, edited(encoder__embedding__vocabulary=2**24, share=False), translated),
    "a spec without a decoder": (SPEC, edited(decoder=None), translated),
    "a spec without a head": (SPEC, edited(head=None), translated),
    "weights of eight bits": (WEIGHTS, retyped("F8_E4M3"), translated),
    "weights of eight bits for a trainer": (WEIGHTS, retyped("F8_E5M2"), restored),
    "weights that are exponents": (WEIGHTS, retyped("F8_E8M0"), translated),
    "weights that are true or false": (WEIGHTS, retyped("BOOL"), translated),
    "moments of eight bits": (OPTIMIZER, retyped("F8_E4M3"), restored),
    "weights whose sums are not finite": (WEIGHTS, huge, translated),
    "a scale beyond floats": (SPEC, edited(decoder__blocks__0__mix__scale=1e308), translated),
    "a shape beyond 63 bits": (WEIGHTS, headed(shape=[2**63, 0]), translated),
    "a shape whose product overflows": (WEIGHTS, headed(shape=[2**40, 2**40]), translated),
    "an empty shape of many sizes": (WEIGHTS, headed(shape=[2**40, 0, 2**40]), translated),
    "a shape of a thousand sizes": (WEIGHTS, headed(shape=[0] * 1000), translated),
    "a type that nobody knows": (WEIGHTS, headed(dtype="F4"), translated),
    "a header of 2**63 bytes": (WEIGHTS, lambda _: (2**63).to_bytes(8, "little"), translated),
    "a header of nothing": (WEIGHTS, lambda _: b"", translated),
    "a tokenizer for another model": (CUT, renumbered, translated),
    "a tokenizer that multiplies": (CUT, edited(normalizer=MULTIPLY), translated),
    "a tokenizer with no pieces": (CUT, edited(model__vocab={}, model__merges=[]), translated),
    "a tokenizer that is deep": (CUT, edited(model="@100000@"), translated),
    "facts whose files are a list": ("data/data.json", edited(files=["train.source"]), opened),
    "facts whose files are words": ("data/data.json", edited(files="tokenizer.json"), opened),
    "facts with a name of NUL": ("data/data.json", edited(files={"\0": "x"}), opened),
    "facts with half a letter as a name": ("data/data.json", edited(files={"\ud800": "x"}), opened),
    "facts with a column of NUL": ("data/data.json", edited(columns={"\0": 1}), opened),
    "facts whose columns are a list": ("data/data.json", edited(columns=["source", "target"]), opened),
    "facts with a column that has no size": ("data/data.json", edited(columns={"source": "9", "target": 9}), opened),
    "facts whose samples are words": ("data/data.json", edited(samples="validation"), batched),
    "facts that are deep": ("data/data.json", lambda _: unfolded('"@100000@"'), opened),
    "a sentence that ends before it begins": ("data/train.source.ends", filled(-(2**62)), batched),
    "a sentence that ends nowhere": ("data/train.source.ends", filled(2**62), batched),
    "a sentence of a terabyte": ("data/train.source.ends", filled(2**38), batched),
    "a sentence too many": ("data/train.source.ends", lambda content: content + content[-8:], batched),
    "half a number": ("data/train.source.ends", lambda content: content[:-3], batched),
    "no sentence at all": ("data/train.source.ends", lambda _: b"", batched),
    "half a token": ("data/train.source", lambda content: content[:-3], batched),
    "a token that isn't there": ("data/train.source", filled(2**31), batched),
    "a timestamp that is none": ("run.yaml", lined("seed", "!!timestamp x"), opened),
    "a number that is none": ("run.yaml", lined("seed", "!!int ''"), opened),
    "a fraction that is none": ("run.yaml", lined("seed", "!!float ''"), opened),
    "a truth that is none": ("run.yaml", lined("seed", "!!bool x"), opened),
    "a number to the base of 60": ("run.yaml", lined("seed", "1" + ":1" * 300_000), opened),
    "a fraction to the base of 60": ("run.yaml", lined("seed", "1" + ":1" * 300 + ".5"), opened),
    "a number of 5,000 digits": ("run.yaml", lined("seed", "0x" + "f" * 5000), opened),
    "10,000 lists": ("run.yaml", lined("seed", "[" * 10_000), opened),
    "a file full of strangers": (
        "run.yaml",
        lambda content: content + b"".join(b"x%d: 0\n" % n for n in range(80_000)),
        opened,
    ),
    "a file full of words": ("run.yaml", lined("seed", "[" + "a, " * 300_000 + "]"), opened),
}


@pytest.mark.parametrize("trick", TRICKS)
def test_a_known_trick_does_not_work(tiny: Tiny, trick: str) -> None:
    name, change, load = TRICKS[trick]
    content = change((tiny.folder / name).read_bytes())
    with tiny.replaced(name, content, sealed=True), bounded():
        found = fault(load, tiny)
    assert found is None, found


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: tensors.pop("decoder.norm.weight/exp_avg_sq"),
        lambda tensors: tensors.pop("decoder.norm.weight/step"),
        lambda tensors: tensors.update({"decoder.norm.weight/step": torch.ones(3)}),
        lambda tensors: tensors.update({"decoder.norm.weight/step": torch.tensor(float("nan"))}),
        lambda tensors: tensors.update({"decoder.norm.weight/x": torch.ones(3)}),
        lambda tensors: tensors["decoder.norm.weight/exp_avg"].fill_(float("nan")),
        lambda tensors: tensors.clear(),
    ],
    ids=["no second moment", "no step", "three steps", "a step of NaN", "a stranger", "NaN", "nothing"],
)
def test_an_optimizer_that_is_not_whole_is_refused(
    tiny: Tiny, tmp_path: Path, change: Callable[[dict[str, torch.Tensor]], object]
) -> None:
    """It would train on: with other steps than before, or until an error of torch's own."""
    copy = Tiny(tmp_path / "run", tiny.tree, tiny.trainer)
    shutil.copytree(tiny.folder, copy.folder)
    path = copy.folder / OPTIMIZER
    tensors = {name: tensor.clone() for name, tensor in safetensors.torch.load(path.read_bytes()).items()}
    change(tensors)
    path.write_bytes(safetensors.torch.save(tensors))
    copy.seal(OPTIMIZER)
    with pytest.raises(RegardError, match="optimizer"):
        tiny.trainer.restore(verify(copy.folder / STEP))


def test_a_damaged_checkpoint_is_named(tiny: Tiny) -> None:
    """Not "nothing was saved yet": something was, and it is this file that is damaged."""
    content = (tiny.folder / WEIGHTS).read_bytes()
    with tiny.replaced(WEIGHTS, content[:-1], sealed=False), pytest.raises(RegardError, match=r"model\.safetensors"):
        translated(tiny)


def changed(tiny: Tiny, tmp_path: Path, words: list[str]) -> Document:
    return Document(tiny.tree | {"out": str(tmp_path / "run")}).change(words)


@pytest.mark.parametrize(
    "word",
    [
        *[f"model.width={value}" for value in (10**12, -1, 0, ".nan", ".inf", "1e99", "true", "[16]", "'16'", "null")],
        *[f"model.depth={value}" for value in (10**6, -1, 0, ".nan")],
        *[f"model.{key}={10**12}" for key in ("heads", "hidden", "decoder_depth", "vocabulary", "source_vocabulary")],
        *[f"model.dropout={value}" for value in (-0.1, 1, ".nan", ".inf")],
        *[f"tokenizer.vocabulary={value}" for value in (10**12, -1, ".nan")],
        *[f"batches.tokens={value}" for value in (10**12, -1, ".nan")],
        *[f"train.steps={value}" for value in (10**30, -1, 0, ".nan")],
        *[f"train.tokens={value}" for value in (-1, 0, ".nan")],
        *[f"train.{key}={value}" for key in ("epochs", "minutes", "clip") for value in (-1, 0, ".nan", ".inf")],
        "train.ema=.nan",
        "train.accumulate=0",
        "train.optimizer={kind: adam, rate: .nan}",
        "train.optimizer={kind: adam, rate: -1}",
        "train.schedule={kind: linear, warmup: -1}",
        "seed=-1",
        f"seed={10**30}",
        "task={kind: translation, smoothing: .nan}",
        f"task={{kind: translation, search: {{beam: {10**12}}}}}",
    ],
)
def test_a_size_beyond_reason_is_refused_by_its_name(tiny: Tiny, tmp_path: Path, word: str) -> None:
    key, _, value = word.partition("=")
    key += "." + value.split(": ")[-2].split("{")[-1].split(", ")[-1] if ": " in value else ""
    key = key.replace("task.beam", "task.search.beam")
    with bounded(), timed(), pytest.raises(SpecError, match=rf"(?m)^{re.escape(key)}: "):
        Run.begin(changed(tiny, tmp_path, [word]))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("size", [7, 199, 201, 2**24])
def test_a_vocabulary_that_does_not_fit_the_tokenizer_is_refused_by_its_name(
    tiny: Tiny, tmp_path: Path, size: int
) -> None:
    with bounded(), timed(), pytest.raises(SpecError, match=rf"model\.vocabulary: {size}, and the tokenizer has \d+"):
        Run.begin(changed(tiny, tmp_path, [f"model.vocabulary={size}"]))
    whole = preset("transformer-tiny", width=16, depth=1, heads=2, vocabulary=size).model_dump(mode="json")
    tree = tiny.tree | {"out": str(tmp_path / "run"), "model": whole}
    with bounded(), timed(), pytest.raises(SpecError, match=rf"model\.\w+\.embedding\.vocabulary: {size}, and"):
        Run.begin(Document(tree))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["model.width=16777216", "model.heads=1"],
        ["model.hidden=16777216", "model.width=4096"],
        ["model.depth=64", "model.width=65536"],
    ],
    ids=" ".join,
)
def test_a_model_that_no_machine_holds_is_refused_before_it_is_made(
    tiny: Tiny, tmp_path: Path, words: list[str]
) -> None:
    with bounded(), timed(), pytest.raises(RegardError):
        run = Run.begin(changed(tiny, tmp_path, words))
        run.trainer()


@pytest.mark.parametrize(
    "path", ["\0", "a\0b", "\ud800", "x" * 300, "x/" * 3000], ids=["NUL", "NUL inside", "half a letter", "long", "deep"]
)
@pytest.mark.parametrize("key", ["out", "data", "corpus.train.path", "tokenizer.like"])
def test_a_path_that_no_system_has_is_refused(tiny: Tiny, tmp_path: Path, key: str, path: str) -> None:
    given = str(tmp_path / path) if key == "out" else path
    document = Document(tiny.tree | {"out": str(tmp_path / "run")}).change([f"{key}={json.dumps(given)}"])
    with timed(), pytest.raises(RegardError):
        Run.begin(document)
    assert not list(tmp_path.iterdir())


class Canary:
    """Whoever unpickles it leaves a file behind."""

    def __init__(self, fired: Path) -> None:
        self.fired = fired

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.fired,)


def stored(fired: Path) -> dict[str, bytes]:
    """The canary as each program stores its pickles, by the ending of the file's name."""

    def torch_file(zipped: bool) -> bytes:
        file = io.BytesIO()
        torch.save({"weight": Canary(fired)}, file, _use_new_zipfile_serialization=zipped)
        return file.getvalue()

    array = io.BytesIO()
    np.save(array, np.array([Canary(fired)], object), allow_pickle=True)
    return {
        "pt": torch_file(zipped=True),
        "pth": torch_file(zipped=False),
        "bin": torch_file(zipped=True),
        "ckpt": pickle.dumps({"state_dict": Canary(fired)}, 2),
        "pkl": pickle.dumps(Canary(fired), 0),  # protocol 0 is text
        "npy": array.getvalue(),
    }


ENDINGS = ("pt", "pth", "bin", "ckpt", "pkl", "npy")


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_canary_would_fire(tmp_path: Path, ending: str) -> None:
    """A test that can't fail is none: whoever does unpickle these is told on."""
    fired = tmp_path / "fired"
    content = io.BytesIO(stored(fired)[ending])
    if ending == "npy":
        np.load(content, allow_pickle=True)
    elif ending in ("ckpt", "pkl"):
        pickle.load(content)
    else:
        torch.load(content, weights_only=False)
    assert fired.exists()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_stored_pickle_is_refused_and_never_fires(tiny: Tiny, tmp_path: Path, ending: str) -> None:
    fired, path = tmp_path / "fired", tmp_path / f"model.{ending}"
    path.write_bytes(stored(fired)[ending])
    begun = changed(tiny, tmp_path, [])
    begun.tree["corpus"] = {"kind": "files", "train": {"kind": "jsonl", "path": str(path)}}
    like = changed(tiny, tmp_path, [f"tokenizer.like={path}"])
    uses: list[Callable[[], object]] = [
        lambda: loaded(str(path)),
        lambda: loaded(str(tmp_path)),
        lambda: Run.open(path),
        lambda: Run.open(tmp_path),
        lambda: Run.begin(read(path)),
        lambda: Run.begin(begun),
        lambda: Run.begin(like),
        lambda: Tokenizer.load(path),
        lambda: verify(path),
        lambda: choose_reader("pairs", [str(path)]),
    ]
    for use in uses:
        with pytest.raises(RegardError):
            use()
    assert not fired.exists()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_pickle_in_a_checkpoint_is_refused_and_never_fires(tiny: Tiny, tmp_path: Path, ending: str) -> None:
    fired = tmp_path / "fired"
    copy = Tiny(tmp_path / "run", tiny.tree, tiny.trainer)
    shutil.copytree(tiny.folder, copy.folder)
    path = copy.folder / STEP / f"model.{ending}"
    path.write_bytes(stored(fired)[ending])
    for load in (translated, restored):
        with pytest.raises(RegardError):  # the manifest doesn't list it
            load(copy)
    copy.seal(f"{STEP}/{path.name}")
    (copy.folder / WEIGHTS).unlink()
    listed = json.loads((copy.folder / STEP / MANIFEST).read_text())
    del listed["files"]["model.safetensors"]
    (copy.folder / STEP / MANIFEST).write_text(json.dumps(listed))
    for load in (translated, restored):
        with pytest.raises(RegardError, match=r"model\.safetensors"):  # and nothing else will do
            load(copy)
    assert not fired.exists()


@pytest.mark.parametrize("sealed", [False, True], ids=["its digest is another", "its digest fits"])
@pytest.mark.parametrize("name", FILES)
def test_a_pickle_under_another_name_is_refused_and_never_fires(
    tiny: Tiny, tmp_path: Path, name: str, sealed: bool
) -> None:
    fired = tmp_path / "fired"
    for content in stored(fired).values():
        with tiny.replaced(name, content, sealed):
            for load in FILES[name]:
                with timed(), pytest.raises(RegardError):
                    load(tiny)
    assert not fired.exists()
