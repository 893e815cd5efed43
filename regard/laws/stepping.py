"""Laws of reading in pieces: what a state must remember, however it is stepped, selected, rewound or joined."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.core.state import State
from regard.laws.case import TIME, Cut, Whole
from regard.laws.law import EXACT, LOOSE, USUAL, Close, Law, agree, insist, insist_finite, law
from regard.laws.player import Chance, History, Player
from regard.laws.reading import ignore_padding, keep_rows_apart, look_back_only, refuse_plain
from regard.laws.script import Join, Read, Rewind, Script, Select, Stretch
from regard.laws.subject import Subject, begin, follow

BEAMS = [(0, 0, 1, 1, 2, 2), (1, 0, 2, 2, 5, 4), (4, 5, 0, 1)]  # repeated, re-ordered within sentences, one dropped
LENGTHS, PROMPT = (5, 8, 2), 10  # rows of a padded prompt, and places in it


def refuse_steps(subject: Subject) -> str:
    """Why there is no stepping."""
    return refuse_plain(subject) or ("" if subject.causal else "it may look ahead, so there is no stepping")


def refuse_states(subject: Subject) -> str:
    """Why there is nothing to remember."""
    alone = "it needs nothing of what came before, so it remembers nothing"
    return refuse_steps(subject) or (alone if subject.sample.alone else "")


def play(subject: Subject, case: Script | Chance, close: Close = USUAL, strict: bool = False) -> list[Player]:
    """Play a script, or those that chance writes, which are always strict."""
    if isinstance(case, Script):
        return [Player(subject, case, close, strict=strict).run(case.events)]
    mixer = subject.make()
    histories = (History(subject, seed, close, case.joins, mixer) for seed in case.seeds)
    return [history.run(case.events, case.joins).end() for history in histories]


@law(
    "stepping equals running whole",
    Script.read(*[1] * TIME),
    excuse=refuse_steps,
    rests_on=[keep_rows_apart, look_back_only],
)
def step(subject: Subject, case: Script) -> None:
    """One position after the other gives what the whole gives: or else what is generated isn't what was trained."""
    play(subject, case)


@law(
    "reading in chunks equals running whole",
    *(Script.read(*sizes) for sizes in [(3, 1, 4, 2), (9, 1), (TIME,)]),
    excuse=refuse_steps,
    rests_on=[step],
)
def read_in_chunks(subject: Subject, case: Script) -> None:
    """Any division into chunks gives what the whole gives: prompts are read so, and long documents are trained so."""
    play(subject, case)


@law("two states don't know of each other", Script.read(2, 1, 3), excuse=refuse_states, rests_on=[read_in_chunks])
def keep_states_apart(subject: Subject, case: Script) -> None:
    """Two sequences that take turns go on as if alone: what is kept on a module, and not in a state, is everybody's."""
    first = Player(subject, case)
    second = Player(subject, replace(case, seed=case.seed + 1), mixer=first.mixer)
    with first.tell_script():
        for event in case.events:
            first.play(event)
            second.play(event)
    first.end()


@law("a state shows all its tensors", Whole(time=5), excuse=refuse_states, rests_on=[keep_states_apart])
def show_tensors(subject: Subject, case: Whole) -> None:
    """Every tensor stands in a field or a tuple of a State: what stands elsewhere isn't selected, joined or counted."""
    mixer, x, memory = subject.make(), subject.draw(case.rows, case.time), subject.remember(case.rows)
    state = begin(mixer, x, memory)
    assert state is not None
    follow(mixer, x, state, memory)
    shown: dict[int, Tensor] = {}
    state.map(lambda tensor: shown.setdefault(id(tensor), tensor))
    for path, tensor in find_tensors(type(state).__name__, state):
        insist(
            id(tensor) in shown,
            f"{path} holds a tensor where no state looks for one: a field or a tuple of a State, please",
        )
    held = sum(tensor.nbytes for tensor in shown.values())
    insist(state.nbytes == held, f"its tensors hold {held} bytes, and nbytes says {state.nbytes}")


def find_tensors(path: str, value: Any) -> list[tuple[str, Tensor]]:
    """Every tensor inside something, wherever it stands, and where."""
    if isinstance(value, Tensor):
        return [(path, value)]
    if isinstance(value, list | tuple):
        inside = {str(n): item for n, item in enumerate(value)}
    elif isinstance(value, dict):
        inside = {str(key): item for key, item in value.items()}
    else:
        inside = vars(value) if hasattr(value, "__dict__") and not isinstance(value, type) else {}
    return [found for name, item in inside.items() for found in find_tensors(f"{path}.{name}", item)]


@law(
    "a padded prompt decodes as if alone",
    *(
        Script((Read(PROMPT, tuple(Stretch((PROMPT - n) * left, n) for n in LENGTHS)), Read(1), Read(1)))
        for left in (1, 0)
    ),
    excuse=refuse_steps,
    rests_on=[read_in_chunks, ignore_padding],
)
def decode_after_padding(subject: Subject, case: Script) -> None:
    """No state moves on a pad: or else a short prompt in a batch is continued otherwise than alone."""
    play(subject, case)


@law(
    "selecting rows equals running those rows",
    *(
        Script((Read(4), Select(rows), Read(TIME - 4)))
        for rows in [(0, 1, 2), (2, 0, 0), (1,), (0, 0, 1, 1, 2, 2), (2, 2)]
    ),
    excuse=refuse_steps,
    rests_on=[keep_states_apart],
)
def select_rows(subject: Subject, case: Script) -> None:
    """All that is remembered moves with its row: a beam repeats, re-orders and drops rows at every step."""
    play(subject, case)


@law(
    "the beams of a sentence share its memory",
    Script((Read(3), *(event for rows in BEAMS for event in (Select(rows), Read(1))))),
    excuse=refuse_steps,
    rests_on=[select_rows],
)
def serve_beams(subject: Subject, case: Script) -> None:
    """Rows that share one entry of a memory are as if each had its own: or else beams see another's sentence."""
    play(subject, case)


@law(
    "rewinding is right or refused",
    Script((Read(6), Rewind(4), Read(TIME - 4))),
    excuse=refuse_states,
    rests_on=[read_in_chunks],
)
def rewind(subject: Subject, case: Script) -> None:
    """A state that forgets its last positions is as if it had never read them, or says NotRewindable and stays."""
    play(subject, case)


@law(
    "a state has the type of its model",
    *(Script.read(3, 1, 1, 5, dtype=dtype) for dtype in ("bfloat16", "float32", "float64")),
    excuse=refuse_states,
    rests_on=[read_in_chunks],
)
def keep_type_of_state(subject: Subject, case: Script) -> None:
    """What is remembered has the model's type, or where it `accumulates` single precision: or else memory doubles."""
    player = Player(subject, case, Close(1e-9, 1e-9))
    assert player.state is not None
    dtype: torch.dtype = player.dtype
    precise = torch.promote_types(dtype, torch.float32)  # a state that adds up all that came before would drift
    allowed = {dtype, precise, precise.to_complex()} if player.mixer.accumulates else {dtype}
    first = list_types(player.state)
    for event in case.events:
        player.play(event)
    last = list_types(player.state)
    insist(first == last, f"the state begins as {name_types(first)}, and becomes {name_types(last)}")
    insist(first <= allowed, f"a model in {dtype} remembers {name_types(first)}, and may {name_types(allowed)}")
    for lane in player.lanes:
        insist(torch.cat(lane.given).dtype == dtype, f"a model in {dtype} gives {lane.given[0].dtype} step by step")
    if dtype == torch.float64:
        player.settle()


def list_types(state: State) -> set[torch.dtype]:
    found: set[torch.dtype] = set()

    def note(tensor: Tensor) -> Tensor:
        if tensor.is_floating_point() or tensor.is_complex():  # what counts has no precision
            found.add(tensor.dtype)
        return tensor

    state.map(note)
    return found


def name_types(types: set[torch.dtype]) -> str:
    return " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in types)) or "nothing"


PARTS = [(2, 4, 6, 0), (1, 9, 3, 20), (3, 1, 5, 5), (2, 0, 6, 2)]  # rows, positions, keys, room


def make_part(rows: int, length: int, keys: int, room: int, seed: int, *events: Any) -> Script:
    """Rows that ran alone; half of their sources are padded."""
    ends = tuple(min(keys, 2 + row) for row in range(rows)) if seed % 2 else ()
    reads = (Read(length),) if length else ()
    return Script((*reads, *events), rows, room, keys, ends, seed=seed)


def join_parts(*parts: Script, after: tuple[Any, ...]) -> Script:
    """The rows of all in one state, and what they do then."""
    first, *others = parts
    return Script((*first.events, Join(tuple(others)), *after), first.rows, first.room, first.keys, first.ends, seed=5)


# positions before, at and past a window's end, with room that is short, long or none; one has read nothing
BEGUN = [make_part(*size, 5 + n) for n, size in enumerate(PARTS)]


@law(
    "joined rows go on as if alone",
    *(join_parts(*BEGUN, after=tuple(map(Read, sizes))) for sizes in [(1, 1, 1, 1, 1), (3, 1), (1, 2, 2)]),
    join_parts(make_part(1, 3, 6, 0, 2), make_part(2, 3, 6, 0, 4), after=(Read(1), Read(2))),
    excuse=refuse_states,
    rests_on=[show_tensors],
)
def join(subject: Subject, case: Script) -> None:
    """Rows of several states in one step on from where each was: so requests of any age share one batch."""
    play(subject, case)


def widen() -> list[Script]:
    """Beams of different width, a dropped row, and a state that was joined before."""
    chosen = [(0, 0, 0, 0, 1, 1, 1, 1), (0, 0), (2, 1)]
    parts = [make_part(*PARTS[n], 5 + n, Select(rows)) for n, rows in enumerate(chosen)]
    once = join_parts(*parts, after=(Read(1), Read(1), Read(2)))
    twice = join_parts(*parts[:2], after=(Join((parts[2],)), Read(1), Read(2)))
    return [once, twice]


@law(
    "joined rows are selected, and selected rows joined",
    *widen(),
    *(
        join_parts(*BEGUN[:3], after=(Read(1), Select(rows), Read(3)))
        for rows in [(2,), (0, 1, 3, 4, 5), (5, 2, 2, 0), (0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5)]
    ),
    excuse=refuse_states,
    rests_on=[join, select_rows],
)
def select_joined(subject: Subject, case: Script) -> None:
    """Rows that came together later go as any others: so a request that is done leaves, and the rest goes on."""
    play(subject, case)


@law(
    "joined rows are rewound or refused together",
    join_parts(BEGUN[0], BEGUN[2], after=(Rewind(2), Read(1), Read(3))),
    excuse=refuse_states,
    rests_on=[join, rewind],
)
def rewind_joined(subject: Subject, case: Script) -> None:
    """Rows at several positions forget to one, or none does: or else their counts and contents part."""
    play(subject, case)


@law("detaching cuts the graph", Cut(at=5), excuse=refuse_states, rests_on=[show_tensors], gradients=True)
def detach(subject: Subject, case: Cut) -> None:
    """No gradient goes past a detached state: truncated back-propagation would keep the whole document's graph."""
    mixer, x, memory = subject.make(), subject.draw(case.rows, case.time).requires_grad_(), subject.remember(case.rows)
    state = begin(mixer, x, memory)
    assert state is not None
    follow(mixer, x[:, : case.at], state, memory)
    state = state.detach()
    for path, tensor in find_tensors(type(state).__name__, state):
        insist(not tensor.requires_grad, f"{path} still has a graph after detach()")
    y = follow(mixer, x[:, case.at :], state, memory)
    insist_finite(y, "the output after detach()")
    if not subject.blind:
        (grad,) = torch.autograd.grad(y.sum(), x)
        agree(grad[:, : case.at], torch.zeros_like(grad[:, : case.at]), ("the gradient before the cut", "none"), EXACT)


FIXED: list[Law[Any]] = [show_tensors, decode_after_padding, select_rows, serve_beams, rewind]


@law("whatever is done to a state, rows are as if alone", Chance(tuple(range(6))), excuse=refuse_steps, rests_on=FIXED)
def live_through(subject: Subject, case: Script | Chance) -> None:
    """Chunks, pads, idle rows, selections and rewinds in any order leave every row as if alone: so search is right."""
    play(subject, case, LOOSE, strict=True)


@law(
    "whatever is joined, rows are as if alone",
    Chance(tuple(range(4)), joins=True),
    excuse=refuse_states,
    rests_on=[live_through, join, select_joined, rewind_joined],
)
def live_together(subject: Subject, case: Script | Chance) -> None:
    """The same where rows of other histories come in between: so a server's batch is right whoever comes and goes."""
    play(subject, case, LOOSE, strict=True)
