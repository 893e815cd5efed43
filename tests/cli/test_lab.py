"""`regard lab`: the list, one experiment from question to finding, and what is told of a slip."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from rich.console import Console

import regard.lab  # noqa: F401  enters every experiment
from regard.cli.lab import draw_table
from regard.errors import InputError
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Rows, Tables, choose_experiment, list_experiments
from regard.lens.plot import Plot, make_series
from tests.cli.test_cli import regard as run_here


@pytest.fixture
def triple() -> Iterator[Experiment]:
    """An experiment that takes no time; it is taken off the list again."""

    class Triple(Experiment):
        name, place, question = "triple", 5, "Is [bold] three times as much?"
        claim, minutes, full_minutes = "It is.", 0.5, 1
        method = "It is added to itself, and then once more, " * 5 + "and that is all."

        def measure(self, bench: Bench) -> Tables:
            rows = [{"what": f"[red]n{n}:cat:", "once": n, "thrice": 3.0 * n} for n in range(bench.choose(3, 70))]
            with bench.watch("adding", len(rows)) as advance:
                advance(len(rows))
            return {"sums [of n]": rows, "seeds": [{"seed": bench.seed}]}

        def conclude(self, tables: Tables) -> Conclusion:
            rows = next(iter(tables.values()))
            return Conclusion(len(rows) == 3, f"{len(rows)} [rows] are three times as much.")

        def draw(self, tables: Tables) -> Sequence[Plot]:
            rows = [{"series": "sums", **row} for row in next(iter(tables.values()))]
            return [Plot("sums", "n", "3n", make_series(rows, "series", "once", "thrice"))]

    yield choose_experiment("triple")
    del Experiment.known["triple"]


def test_all_are_listed_in_order(triple: Experiment) -> None:
    done = run_here("lab")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["experiment", "question", "minutes", "--full"]
    found = [line.split()[0] for line in lines[1:] if not line.startswith(" ")]
    assert found == [each.name for each in list_experiments()] and found[0] == "triple"
    assert "Is [bold] three times as much?" in done.stdout  # brackets are text
    assert "regard lab triple, or" in done.stderr
    assert max(map(len, lines)) <= 120


def test_the_list_is_json_too(triple: Experiment) -> None:
    done = run_here("lab", "--json")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["experiment"] for each in told] == [each.name for each in list_experiments()]
    assert told[0]["question"] == triple.question and told[0]["minutes"] == 0.5


def test_an_unknown_name_is_refused_with_a_near_one() -> None:
    done = run_here("lab", "temprature")
    assert done.returncode == InputError.status
    assert "did you mean 'temperature'" in done.stderr and "regard lab lists all" in done.stderr


def test_an_experiment_tells_question_table_and_finding(triple: Experiment, tmp_path: Path) -> None:
    done = run_here("lab", "triple", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "triple: Is [bold] three times as much?" in done.stderr and "The claim: It is." in done.stderr
    assert "About 0.5 minutes on two cores." in done.stderr
    lines = [line.rstrip() for line in done.stdout.strip().splitlines()]
    assert lines[0] == "sums [of n]:"
    assert lines[1].split() == ["what", "once", "thrice"]
    assert [line.split() for line in lines[2:5]] == [[f"[red]n{n}:cat:", str(n), f"{3 * n:g}"] for n in range(3)]
    assert "3 [rows] are three times as much." in lines
    assert str(tmp_path / "triple") in lines[-1]
    assert "triple.html in a browser, or" in done.stderr and "--full takes more time" in done.stderr
    assert {"lab.json", "triple.png", "triple.html", "triple-seeds.csv"} <= {
        path.name for path in (tmp_path / "triple").iterdir()
    }


def test_what_is_told_before_fits_a_narrow_terminal(
    triple: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = run_here("lab", "triple", "--out", str(tmp_path))
    assert max(len(line) for line in done.stderr.partition("About")[0].splitlines()) <= 80


def test_full_says_so_and_long_tables_end(triple: Experiment, tmp_path: Path) -> None:
    done = run_here("lab", "triple", "--full", "--seed", "4", "--out", str(tmp_path))
    assert "About 1 minutes" in done.stderr and "--full takes" not in done.stderr
    assert "and 10 more rows in the CSV" in done.stdout
    assert "Not shown here: 70 [rows]" in done.stdout
    facts = json.loads((tmp_path / "triple" / "lab.json").read_text(encoding="utf-8"))
    assert facts["full"] and not facts["shown"] and facts["tables"]["seeds"] == [{"seed": 4}]


def test_json_is_one_object_and_nothing_else(triple: Experiment, tmp_path: Path) -> None:
    done = run_here("lab", "triple", "--json", "--out", str(tmp_path))
    told = json.loads(done.stdout)
    assert told["finding"] == "3 [rows] are three times as much." and told["shown"]


def test_a_page_is_recorded_and_one_that_cannot_be_is_found_out_first(triple: Experiment, tmp_path: Path) -> None:
    page = tmp_path / "laboratory.md"
    assert run_here("lab", "triple", "--out", str(tmp_path / "out"), "--record", str(page)).returncode == 0
    assert "## triple\n" in page.read_text(encoding="utf-8")
    refused = run_here("lab", "triple", "--out", str(tmp_path / "other"), "--record", str(tmp_path))
    assert refused.returncode != 0 and "is a folder" in refused.stderr and not (tmp_path / "other").exists()


@pytest.mark.parametrize("width", [80, 120])
def test_a_table_fits_a_terminal(width: int) -> None:
    rows: Rows = [{"what": "a word " * 20, "loss": 0.123456, "steps": 12345, "low": -0.01, "shown": True}] * 2
    told = io.StringIO()
    Console(file=told, width=width).print(draw_table(rows))
    assert max(map(len, told.getvalue().splitlines())) <= width
    for cell in ("0.1235", "12,345", "-0.01", "yes"):
        assert cell in told.getvalue()


def test_all_go_on_when_one_fails(triple: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(type(triple)):  # type: ignore[misc]
        name, place = "broken", 4

        def measure(self, bench: Bench) -> Tables:
            raise InputError("there is nothing to measure")

    both = [choose_experiment("broken"), triple]
    monkeypatch.setattr(Experiment, "known", {one.name: Experiment.known[one.name] for one in both})
    done = run_here("lab", "all", "--seed", "4", "--out", str(tmp_path), "--json")
    assert done.returncode == 1
    assert [json.loads(line)["experiment"] for line in done.stdout.splitlines()] == ["triple"]
    assert "1 of 2 experiments failed: broken: there is nothing to measure" in done.stderr
    assert "regard lab broken --seed 5" in done.stderr
    assert run_here("lab", "broken", "--out", str(tmp_path)).returncode == 3
