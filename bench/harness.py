"""What the programs of the bench share: sides that take turns, the best of each, the machine, and the page.

A side is one system at one job, in a process of its own with an interpreter of its own, so only the standard library
stands here. It makes ready once and is then asked for a figure as often as the table wants: ours, theirs, ours, theirs.
What can't be had on this machine is `Missing`, by name and reason; nothing stands in for it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from bench.page import Better, Figures, Table, put_table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
# the environment of the others, which `python -m bench.peers` makes
PEERS = Path(os.environ.get("BENCH_PEERS", ROOT / ".venv-bench"))
LONGEST = 1800.0  # seconds that a side may take for one answer: whoever hangs must not stop the others
# what tells libraries to do without AVX-512: ours, torch and the two that it asks, CTranslate2
AVX2 = {
    "REGARD_KERNELS": "avx2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "CT2_FORCE_CPU_ISA": "AVX2",
}
DEAF = ("llama", "runtime")  # sides that can't be told


class Missing(Exception):
    """A side that can't be measured here, and why."""


@dataclass(frozen=True)
class Side:
    """One system at one job."""

    name: str  # heads its column
    system: str  # a module of bench/sides
    job: str  # a function there: settings to a function that measures once
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Literal["ours", "peers"] = "peers"
    told: Mapping[str, str] = field(default_factory=dict)  # variables of its process's environment
    longest: float = LONGEST  # seconds


class Worker:
    """A side at work: a process that is ready, and answers when asked."""

    def __init__(self, side: Side, threads: int) -> None:
        self.side = side
        if side.system in DEAF and is_kept():
            raise Missing("it can't be told to do without AVX-512")
        python = sys.executable if side.environment == "ours" else str(PEERS / "bin" / "python")
        if not Path(python).exists():
            raise Missing(f"{PEERS.name} isn't there; python -m bench.peers makes it")
        count = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        hub = {"HF_HUB_OFFLINE": "1"}  # nothing is fetched while something is measured
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the worker
        self._process = subprocess.Popen(
            [python, "-m", f"bench.sides.{side.system}", side.job],
            env={**os.environ, **count, **hub, "PYTHONPATH": str(ROOT), **side.told},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            # a side that has to be killed takes along the programs that it started; no session of its own, since Linux
            # shares processor time among sessions, and a busy neighbour would then weigh less or more
            process_group=0,
        )
        try:
            self.versions: dict[str, str] = self._ask(json.dumps({**side.settings, "threads": threads}))["versions"]
        except BaseException:
            self.close()
            raise

    def measure(self) -> float:
        return float(self._ask("go")["figure"])

    def _ask(self, line: str) -> dict[str, Any]:
        pipes = self._process
        assert pipes.stdin is not None and pipes.stdout is not None
        try:
            pipes.stdin.write(line + "\n")
            pipes.stdin.flush()
            if not wait_for(pipes.stdout, self.side.longest):
                self._kill()
                raise Missing(f"no answer after {self.side.longest:g} s")
            answer = json.loads(pipes.stdout.readline() or "{}")
        except (BrokenPipeError, ValueError):
            answer = {}
        if "missing" in answer:
            raise Missing(answer["missing"])
        if not answer:
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip()
            if self.side.environment == "ours":  # that is a mistake here, and nothing that this machine lacks
                raise SystemExit(f"{self.side.name}: bench.sides.{self.side.system} {self.side.job} failed\n{said}")
            raise Missing(f"it ended without an answer: {said.split(chr(10))[-1] or 'nothing was said'}")
        return dict(answer)

    def close(self) -> None:
        """End the process, and wait for it, so that its time counts as ours."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):  # it may be gone already
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._kill()
        self._process.stdout.close()
        self._errors.close()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def wait_for(pipe: IO[str], seconds: float) -> bool:
    """Whether a pipe has something to read, or is closed, within so many seconds."""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def serve(jobs: Mapping[str, Callable[[Mapping[str, Any]], Callable[[], float]]], *packages: str) -> None:
    """Be a side: make ready by the settings on the first line, and answer each further line with a figure."""
    # what a library prints must not be taken for an answer
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**words: Any) -> None:
        out.write(json.dumps(words) + "\n")
        out.flush()

    try:
        measure = jobs[sys.argv[1]](json.loads(sys.stdin.readline()))
        answer(versions=find_versions(packages))
    except (ImportError, Missing) as error:
        answer(missing=str(error))
        return
    for _ in sys.stdin:
        try:
            answer(figure=measure())
        except (ImportError, Missing) as error:  # it may be asked again, for another column
            answer(missing=str(error))


def read_speed(name: str, command: Sequence[str], pattern: str) -> float:
    """What a program says of its own speed while it works: the median of its reports after the first one."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    found = [float(speed) for speed in re.findall(pattern, said)]
    if len(found) < 2:
        raise Missing(f"{name} didn't train: {said.strip().splitlines()[-1] if said.strip() else 'it said nothing'}")
    return statistics.median(found[1:])


def find_versions(packages: Sequence[str]) -> dict[str, str]:
    """The versions of installed packages, by the names that the index has."""
    from importlib.metadata import version

    return {name: version(name) for name in packages}


def take_turns(sides: Mapping[str, Callable[[], float]], rounds: int, better: Better) -> Figures:
    """The best figure of each side, measured one after the other in every round; a side that fails is left out."""
    best: dict[str, float | str] = {}
    for number in range(rounds):
        for name, measure in sides.items():
            if isinstance(best.get(name), str):
                continue
            try:
                found = measure()
            except Missing as error:
                best[name] = str(error)
                say(f"  {name}: missing, {error}")
                continue
            before = best.get(name, found)
            assert not isinstance(before, str)
            best[name] = max(before, found) if better == "more" else min(before, found)
            say(f"  round {number + 1} of {rounds}: {name} {found:,.4g}")
    return best


@contextmanager
def make_ready(sides: Sequence[Side], threads: int) -> Iterator[tuple[dict[str, Worker], dict[str, str]]]:
    """All sides at work, and those that can't be had with the reason."""
    workers: dict[str, Worker] = {}
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        for side in sides:
            say(f"  {side.name} makes ready")
            try:
                worker = Worker(side, threads)
            except Missing as error:
                missing[side.name] = str(error)
                say(f"  {side.name}: missing, {error}")
                continue
            stack.callback(worker.close)
            workers[side.name] = worker
        yield workers, missing


def tell_versions(workers: Iterable[Worker]) -> str:
    """The versions of all that took part."""
    found = {name: number for worker in workers for name, number in worker.versions.items()}
    return ", ".join(f"{name} {number}" for name, number in sorted(found.items()))


def compare(sides: Sequence[Side], rounds: int, threads: int, better: Better) -> tuple[Figures, str]:
    """Start all sides of a case and let them take turns; their figures, and the versions of all that took part."""
    with make_ready(sides, threads) as (workers, missing):
        found = take_turns({name: worker.measure for name, worker in workers.items()}, rounds, better)
        return {**found, **missing}, tell_versions(workers.values())


def measure_table(table: Table, cases: Mapping[str, Sequence[Side]], words: argparse.Namespace) -> bool:
    """Measure all cases of a table, tell and write each as soon as it is there; whether every promise is kept."""
    held = True
    for case, sides in cases.items():
        if not re.search(words.only, case):
            continue
        say(f"{table.title}: {case}")
        with watch_others() as others:
            figures, versions = compare(sides, words.rounds, words.threads, table.better)
        held &= report(table, case, figures, words, versions, others[0])
    return held


def report(
    table: Table, case: str, figures: Figures, words: argparse.Namespace, versions: str = "", others: float = 0.0
) -> bool:
    """Tell a case's figures, and write them on the page; whether its promises are kept."""
    about = {
        "measured": f"best of {words.rounds}, {words.threads} threads, {time.strftime('%Y-%m-%d')}, "
        f"others kept {others:.1f} cores busy",
        "machine": describe_machine(),
        "versions": versions,
    }
    row = table.row(case, describe_instructions(), figures, about)
    print(json.dumps({"table": table.title, **row}) if words.json else tell(table, row), flush=True)
    if words.page is not None:
        before = words.page.read_text(encoding="utf-8") if words.page.exists() else ""
        words.page.write_text(put_table(before, table, [row]), encoding="utf-8")
    return all(bar.holds(figures, table.better) for bar in table.bars)


def tell(table: Table, row: Mapping[str, str]) -> str:
    """A row for a terminal."""
    lines = [f"{table.title}: {row['case']} ({row['instructions']}), {table.unit}"]
    return "\n".join([*lines, *(f"    {name:42} {row[name]}" for name in table.columns[2:] if row.get(name))])


@contextmanager
def watch_others() -> Iterator[list[float]]:
    """How many cores other processes kept busy meanwhile: a figure from a busy machine says so itself."""
    found = [0.0]
    began, busy, own = time.monotonic(), count_busy(), count_own()
    yield found
    took = max(time.monotonic() - began, 0.01)
    found[0] = max(0.0, (count_busy() - busy) - (count_own() - own)) / took


def count_busy() -> float:
    """Seconds that all processes have computed so far; 0 where nobody counts them."""
    try:
        user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:8])
    except (OSError, ValueError):
        return 0.0
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def count_own() -> float:
    """Seconds that this process and the children that it has waited for have computed."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def name_instructions(flags: set[str], told: Mapping[str, str]) -> str:
    """What a row is keyed by: the vector instructions, what of them matters to small types, and who was told less."""
    widest = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else platform.machine()
    extra = {"bf16": {"avx512_bf16"}, "VNNI": {"avx512_vnni", "avx_vnni"}, "AMX": {"amx_int8", "amx_bf16"}}
    more = [name for name, any_of in extra.items() if any_of & flags]
    named = f"{widest} ({', '.join(more)})" if more else widest
    if told == AVX2:
        return f"AVX2, all told to do without {named}"
    return ", ".join([named, *(f"{name}={value}" for name, value in told.items())])


def is_kept() -> bool:
    """Whether all are told to do without AVX-512."""
    return AVX2.items() <= os.environ.items()


def read_processor() -> dict[str, str]:
    """What the first processor says of itself; nothing where nobody tells."""
    try:
        said = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in said.split("\n"))}


def describe_instructions() -> str:
    """What the rows of this machine are keyed by."""
    told = {name: os.environ[name] for name in AVX2 if name in os.environ}
    return name_instructions(set(read_processor().get("flags", "").split()), told)


def describe_machine() -> str:
    """Where something was measured; makers give processors of several generations one name."""
    found = read_processor()
    name = found.get("model name", platform.machine())
    if "cpu family" in found:
        name += f" (family {found['cpu family']}, model {found.get('model', '?')})"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} × {name}, {memory:.0f} GB, Python {platform.python_version()}"


def say(words: str) -> None:
    """Progress, apart from what is measured."""
    print(words, file=sys.stderr, flush=True)


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """What all programs of the bench can be told."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke run at small sizes; nothing is written")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts (3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="for each side")
    parser.add_argument("--only", default="", metavar="PATTERN", help="cases whose name has this in it")
    parser.add_argument("--page", type=Path, help=f"where rows are written ({PAGE.relative_to(ROOT)})")
    parser.add_argument("--json", action="store_true", help="print one JSON object a row")
    parser.add_argument("--avx2", action="store_true", help="tell all to do without AVX-512, for rows of their own")
    parser.add_argument("--strict", action="store_true", help="end with status 1 when a promise isn't kept")
    return parser


def read_words(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The words, settled: a smoke run is one round, and writes only where it is told to."""
    words = parser.parse_args()
    if words.avx2:
        os.environ.update(AVX2)
    if words.quick:
        words.rounds = 1
        say("a smoke run: what it prints are no measurements")
    elif words.page is None:
        words.page = PAGE
    return words


def find_corpus(folder: Path | None, *files: str) -> Path:
    """A folder that was given and has these files; else the program ends with what is missing."""
    if folder is None:
        raise SystemExit(f"a corpus is missing: give the folder that holds {', '.join(files)}")
    absent = [name for name in files if not (folder / name).is_file()]
    if absent:
        raise SystemExit(f"{folder}: {', '.join(absent)} is missing")
    return folder


def finish(held: bool, words: argparse.Namespace) -> None:
    """End with status 1 where that is wanted."""
    if words.strict and not held:
        raise SystemExit(1)
