"""Several processes that train together: two ranks take the steps of one, and one of them writes."""

from __future__ import annotations

import ast
import math
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.model import Model
from regard.errors import SpecError, Stopped
from regard.runs.folder import Run
from regard.train.checkpoint import Store
from regard.train.listener import Journal, Listener, Step, history
from regard.train.moment import Moment
from regard.train.trainer import Trainer
from regard.train.world import World
from tests.train.small import begun
from tests.train.test_costs import DEEPSEEK, MIXTRAL
from tests.train.test_costs import document as language

TRAIN = Path(__file__).parent.parent.parent / "regard" / "train"


@dataclass
class Meeting:
    """Where threads that stand for processes meet: all bring something, and all see what the others brought."""

    size: int
    brought: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.door = threading.Barrier(self.size, timeout=60)

    def exchange(self, rank: int, thing: Any) -> list[Any]:
        self.brought[rank] = thing
        self.door.wait()
        found = [self.brought[n] for n in range(self.size)]
        self.door.wait()
        return found


class Pretended(World):
    """One of several ranks that are threads."""

    def __init__(self, rank: int, meeting: Meeting) -> None:
        self.rank, self.size, self.meeting = rank, meeting.size, meeting

    def sum(self, tensor: Tensor) -> Tensor:
        found = self.meeting.exchange(self.rank, tensor.detach().clone())
        return torch.stack(found).sum(0).to(tensor.dtype)

    def agree(self, value: float) -> float:
        return max(self.meeting.exchange(self.rank, value))

    def barrier(self) -> None:
        self.meeting.exchange(self.rank, None)


def together(trainers: list[Trainer]) -> list[BaseException | None]:
    """Run trainers at the same time; what each ended with, if not with a report."""
    ends: list[BaseException | None] = [None] * len(trainers)

    def work(n: int) -> None:
        try:
            trainers[n].run()
        except BaseException as error:
            ends[n] = error
            if not isinstance(error, Stopped):
                trainers[n].world.meeting.door.abort()  # type: ignore[attr-defined]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(trainers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


class Heard(Listener):
    """Every event, by its name."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.events: list[str] = []

    def on_start(self, moment: Moment, spec: Any) -> None:
        self.events.append("start")

    def on_step(self, step: Step, moment: Moment) -> None:
        self.steps.append(step)

    def on_evaluation(self, moment: Moment, measures: Any, best: bool) -> None:
        self.events.append("evaluation")

    def on_save(self, path: Path) -> None:
        self.events.append("save")

    def on_end(self, moment: Moment) -> None:
        self.events.append("end")


def pair(make: Callable[[], Run], folder: Path) -> tuple[list[Trainer], list[Heard]]:
    """Two ranks of a run, each with a store and a listener of its own, so that it shows who writes."""
    run, meeting, heard = make(), Meeting(2), [Heard(), Heard()]
    trainers = []
    for rank in range(2):
        trainer = run.trainer([heard[rank]], Pretended(rank, meeting))
        trainer.archive.store = Store(folder / f"rank-{rank}")
        trainers.append(trainer)
    return trainers, heard


def same(one: Model, other: Model) -> None:
    for (name, left), right in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-7, msg=name)


@pytest.mark.parametrize(
    ("model", "each"), [("transformer", 1), ("transformer", 2), ("balance", 1), ("balance", 2), ("load", 1)]
)
def test_two_ranks_take_the_steps_of_one_process_with_both_their_batches(model: str, each: int, tmp_path: Path) -> None:
    def make(name: str, accumulate: int) -> Run:
        words = ["train.steps=6", "train.evaluate=3", "train.save=100", f"train.accumulate={accumulate}"]
        # four gradients aren't added in the same order by two ranks, and Adam would blow up what that rounds
        words += ["train.optimizer={kind: sgd, rate: 0.1}"] if each > 1 else []
        if model == "transformer":
            return begun(tmp_path / name, "model.dropout=0.0", "train.ema=0.9", *words)
        return Run.begin(language(tmp_path / name, {"balance": MIXTRAL, "load": DEEPSEEK}[model], *words))

    alone = Heard()
    single = make("alone", 2 * each).trainer([alone])
    single.run()
    trainers, heard = pair(lambda: make("both", each), tmp_path)
    assert together(trainers) == [None, None]
    for trainer in trainers:
        same(trainer.model, single.model)
        assert [step for _, step in trainer.moment.ranking] == [step for _, step in single.moment.ranking]
        for name in ("step", "epoch", "position", "share", "tokens", "evaluated", "stale", "goal"):
            assert vars(trainer.moment)[name] == vars(single.moment)[name], name
    for one, other in zip(heard[0].steps, alone.steps, strict=True):
        assert (one.step, one.tokens, one.rate) == (other.step, other.tokens, other.rate)
        assert [one.loss, one.gradient] == pytest.approx([other.loss, other.gradient], rel=1e-5)
        assert one.costs == pytest.approx(other.costs, rel=1e-5)
    assert heard[0].events == alone.events
    # one writes and tells, for both
    assert heard[1].events == [] and heard[1].steps == []
    assert (tmp_path / "rank-0").is_dir() and not (tmp_path / "rank-1").exists()


def test_each_rank_has_its_share_of_the_order_and_the_place_is_one(tmp_path: Path) -> None:
    task = begun(tmp_path / "run").trainer().task

    def first(count: int, position: int, rank: int = 0, ranks: int = 1) -> list[Any]:
        places = task.batches(0, position, rank, ranks)
        found = [next(places) for _ in range(count)]
        places.close()
        return found

    whole = first(12, 0)
    shares = [first(4, 0, rank, 3) for rank in range(3)]
    for rank, share in enumerate(shares):
        for n, place in enumerate(share):
            assert torch.equal(place.batch.source.tokens, whole[3 * n + rank].batch.source.tokens)
            last = whole[3 * n + 2]
            assert (place.epoch, place.position, place.share) == (last.epoch, last.position, last.share)
    again = first(3, shares[1][0].position + 1, 1, 3)
    assert all(
        torch.equal(one.batch.target.tokens, other.batch.target.tokens)
        for one, other in zip(again, shares[1][1:], strict=True)
    )


def test_a_signal_to_any_rank_stops_all_at_the_same_step(tmp_path: Path) -> None:
    trainers, heard = pair(lambda: begun(tmp_path / "run", "train.steps=50", "train.evaluate=0"), tmp_path)
    loss = trainers[1].task.loss

    def signalled(model: Model, batch: Any) -> Tensor:
        if trainers[1].moment.step == 4:
            trainers[1].signals.number = signal.SIGTERM
        return loss(model, batch)

    trainers[1].task.loss = signalled  # type: ignore[method-assign]
    ends = together(trainers)
    assert all(isinstance(end, Stopped) and end.status == 143 for end in ends)
    assert [trainer.moment.step for trainer in trainers] == [5, 5]
    newest = Store(tmp_path / "rank-0").latest()
    assert newest is not None and newest.step == 5
    assert heard[0].events[-1] == "end"


def test_a_signal_to_one_rank_ends_the_evaluation_of_all(tmp_path: Path) -> None:
    trainers, heard = pair(lambda: begun(tmp_path / "run", "train.steps=50", "train.evaluate=3"), tmp_path)
    evaluate = trainers[1].task.evaluate

    def signalled(model: Model, pulse: Any) -> Any:
        trainers[1].signals.number = signal.SIGTERM
        return evaluate(model, pulse)

    trainers[1].task.evaluate = signalled  # type: ignore[method-assign]
    ends = together(trainers)
    assert all(isinstance(end, Stopped) for end in ends)
    assert [trainer.moment.step for trainer in trainers] == [3, 3]
    assert "evaluation" not in heard[0].events


def test_minutes_are_counted_by_the_clock_that_is_ahead(tmp_path: Path) -> None:
    words = ["train.steps=null", "train.minutes=0.05", "train.evaluate=4", "train.save=1000"]
    trainers, heard = pair(lambda: begun(tmp_path / "run", *words), tmp_path)
    trainers[1].moment.seconds = 1.5  # this machine began earlier
    assert together(trainers) == [None, None]
    one, other = (trainer.moment for trainer in trainers)
    assert (one.step, one.clock, one.seconds) == (other.step, other.clock, other.seconds)
    assert one.seconds < 20
    same(trainers[0].model, trainers[1].model)
    assert heard[0].steps[-1].seconds > 1.5


def test_two_ranks_go_on_as_if_they_had_never_stopped(tmp_path: Path) -> None:
    """Each draws its own chance on: here from one source, so what is compared is that both kept theirs."""
    words = ["model.dropout=0.0", "train.steps=6", "train.evaluate=0", "train.save=3", "train.ema=0.5"]
    straight, _ = pair(lambda: begun(tmp_path / "straight", *words), tmp_path / "one")
    assert together(straight) == [None, None]
    kept = Store(tmp_path / "one" / "rank-0").at(3)
    assert set(kept.tensors("generators")) == {"cpu", "cpu.1"}
    again, _ = pair(lambda: begun(tmp_path / "again", *words), tmp_path / "other")
    for trainer in again:
        trainer.restore(kept)
    assert together(again) == [None, None]
    for one, other in zip(straight, again, strict=True):
        same(one.model, other.model)
        assert one.moment.position == other.moment.position


def test_a_measure_that_one_rank_finds_wanting_is_so_for_all(tmp_path: Path) -> None:
    trainers, _ = pair(lambda: begun(tmp_path / "run", "train.steps=4", "train.evaluate=2"), tmp_path)
    for rank, values in enumerate(([1.0, math.nan], [1.0 + 1e-12, 2.0])):
        trainers[rank].task.evaluate = lambda *_, values=values: {"bleu": values.pop(0)}  # type: ignore[method-assign]
    assert together(trainers) == [None, None]
    assert trainers[0].moment.ranking == trainers[1].moment.ranking == [(1.0 + 1e-12, 2)]
    assert trainers[0].moment.stale == trainers[1].moment.stale == 1


def test_a_text_that_is_read_on_is_not_shared(tmp_path: Path) -> None:
    words = ["task.carry=true", "model={kind: gru, width: 8, depth: 1}"]
    trainers, _ = pair(lambda: Run.begin(language(tmp_path / "run", {}, *words)), tmp_path)
    assert all(isinstance(end, SpecError) for end in together(trainers))


def test_a_world_alone_changes_nothing_and_asks_nobody() -> None:
    world, tensor = World(), torch.ones(3)
    assert world.is_writer and (world.rank, world.size) == (0, 1)
    assert world.sum(tensor) is tensor and world.gather(tensor)[0] is tensor
    assert world.agree(2.5) == 2.5 and world.total(3) == 3
    world.sum_gradients([tensor])
    world.barrier()
    for path in TRAIN.parent.rglob("*.py"):
        assert "torch.distributed" not in path.read_text(), path


def test_a_weight_that_only_one_rank_used_has_a_gradient_on_all() -> None:
    meeting, weights = Meeting(2), [torch.zeros(2, requires_grad=True) for _ in range(2)]
    weights[0].grad = torch.ones(2)
    worlds = [Pretended(rank, meeting) for rank in range(2)]
    threads = [
        threading.Thread(target=world.sum_gradients, args=([weight],))
        for world, weight in zip(worlds, weights, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(weight.grad is not None and torch.equal(weight.grad, torch.ones(2)) for weight in weights)


WRITES = {"write", "write_bytes", "write_text", "mkdir", "touch", "unlink", "rmdir", "rename", "remove", "discard"}
WRITES |= {"aside", "sync", "SummaryWriter", "os.replace"}


def writers(path: Path) -> Iterator[str]:
    """The classes, and the functions outside of any, that open a file for writing, move it or delete it."""
    for node in ast.parse(path.read_text()).body:
        for call in ast.walk(node):
            if not isinstance(call, ast.Call) or not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            whole = ast.unparse(call.func)
            modes = [word.value for word in call.args if isinstance(word, ast.Constant)]
            opens = whole.endswith("open") and any(isinstance(mode, str) and set(mode) & set("wax+") for mode in modes)
            if opens or whole in WRITES or whole.rpartition(".")[2] in WRITES:
                yield f"{path.name}: {node.name}"


def test_what_writes_in_training_is_known_and_one_process_does_it() -> None:
    """Listeners and the store are called by the writer alone; a place that joins this list must ask the world."""
    found = {place for path in sorted(TRAIN.glob("*.py")) for place in writers(path)}
    assert found == {"listener.py: Journal", "listener.py: Board", "checkpoint.py: Store", "checkpoint.py: discard"}
    code = (TRAIN / "trainer.py").read_text()
    assert code.count("store.save(") == 1 and "store.save(*entry) if self.world.is_writer else None" in code


def test_a_journal_is_kept_by_the_writer_alone(tmp_path: Path) -> None:
    run, meeting = begun(tmp_path / "run", "train.steps=3", "train.evaluate=0"), Meeting(2)
    journals = [tmp_path / f"metrics-{rank}.jsonl" for rank in range(2)]
    trainers = [run.trainer([Journal(journals[rank])], Pretended(rank, meeting)) for rank in range(2)]
    assert together(trainers) == [None, None]
    assert [line["step"] for line in history(journals[0])] == [1, 2, 3, 3]
    assert not journals[1].exists()
    assert run.store.latest() is not None
