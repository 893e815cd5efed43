"""What the laboratory is built on: curves against known ones, intervals by hand, files, and the page."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import regard.lab  # noqa: F401  enters every experiment
from regard.errors import InputError
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.clock import time_sides
from regard.lab.apparatus.experiment import Conclusion, Experiment, Tables, choose_experiment, list_experiments
from regard.lab.apparatus.fit import fit_exponent, fit_growth, fit_line
from regard.lab.apparatus.journal import PAGE, format_value, record_outcome, write_table
from regard.lab.apparatus.outcome import Outcome, perform, spell, write_csv
from regard.lens.plot import Plot, make_series
from regard.tasks.measures import average

ROWS = [
    {"width": 16, "scale": "on", "loss": 0.5, "exact": True},
    {"width": 1024, "scale": "off, or\nnone", "loss": math.nan, "exact": None},
]
SIZES = [8.0, 16.0, 64.0, 256.0, 1024.0]


@pytest.fixture
def double() -> Iterator[Experiment]:
    """An experiment that takes no time; it is taken off the list again."""

    class Double(Experiment):
        name, place, question = "double", 5, "Is it twice?"
        claim, method, minutes, full_minutes = "It is.", "It is added to itself.", 0.1, 0.2

        def measure(self, bench: Bench) -> Tables:
            return {"sums": ROWS, "Who (and when)?": [{"seed": bench.seed, "size": bench.choose(1, 2)}]}

        def conclude(self, tables: Tables) -> Conclusion:
            return Conclusion(True, f"{len(tables['sums'])} rows say so.")

        def draw(self, tables: Tables) -> Sequence[Plot]:
            series = make_series(tables["sums"], "scale", "width", "loss")
            return [Plot("sums", "width", "nats", series), Plot("again", "width", "nats", series, ("across",))]

    yield choose_experiment("double")
    del Experiment.known["double"]


def make_outcome(experiment: Experiment, tables: Tables | None = None, shown: bool = True) -> Outcome:
    tables = {"sums": ROWS, "Who (and when)?": [{"seed": 1}]} if tables is None else tables
    return Outcome(experiment, tables, Conclusion(shown, "it is | so."), 3, False, 61.0, 2, ["one"])


def test_a_line_is_found_again() -> None:
    line = fit_line([0, 1, 2, 5], [1, -1, -3, -9])
    assert line == pytest.approx((-2, 1, 1))
    noise = np.random.default_rng(0).normal(size=50)
    x = np.arange(50.0)
    found = fit_line(list(x), list(3 * x + noise))
    assert found.fit == pytest.approx(np.corrcoef(x, 3 * x + noise)[0, 1] ** 2)
    assert fit_line([1, 2, 3], [0.1, 0.1, 0.1]) == (0.0, 0.1, 1.0)  # the mean of these isn't 0.1 to the bit


@pytest.mark.parametrize("power", [-1.0, 0.5, 1.0, 2.0])
def test_an_exponent_is_found_again(power: float) -> None:
    assert fit_exponent(SIZES, [7 * n**power for n in SIZES])[::2] == pytest.approx((power, 1))


@pytest.mark.parametrize(
    ("growth", "values"),
    [
        ("O(1)", [3, 3, 3, 3, 3]),
        ("O(1)", [100, 101, 100, 99.5, 100]),
        ("O(log n)", [4 * math.log2(n) + 1 for n in SIZES]),
        ("O(n)", [n + 40 for n in SIZES]),
        ("O(n)", [3 * n - 1 for n in SIZES]),
        ("O(n²)", [n * n + 5 * n for n in SIZES]),
        ("O(1)", [9, 8, 7, 3, 1]),  # what falls doesn't grow
    ],
)
def test_growth_is_told_by_known_curves(growth: str, values: Sequence[float]) -> None:
    assert fit_growth(SIZES, values) == growth


def test_curves_need_points() -> None:
    with pytest.raises(InputError, match="2 places and 1 values"):
        fit_line([1, 2], [1])
    with pytest.raises(InputError, match="two points"):
        fit_exponent([1], [1])
    with pytest.raises(InputError, match="above zero"):
        fit_exponent([1, 2], [0, 1])
    with pytest.raises(InputError, match="all 3 points are at 4"):
        fit_line([4, 4, 4], [1, 2, 3])


def test_an_interval_is_students() -> None:
    mean, low, high = average([1.0, 2.0, 6.0])
    half = 4.303 * math.sqrt(((1 - 3) ** 2 + (2 - 3) ** 2 + (6 - 3) ** 2) / 2) / math.sqrt(3)  # two degrees of freedom
    assert (mean, low, high) == pytest.approx((3.0, 3 - half, 3 + half))
    assert average([4.0, 4.0]) == (4.0, 4.0, 4.0)
    alone = average([7.0])
    assert alone.value == 7 and math.isnan(alone.low) and math.isnan(alone.high)
    many = [0.0, 2.0] * 50
    assert average(many).high == pytest.approx(1 + 1.96 * np.std(many, ddof=1) / 10)
    with pytest.raises(InputError, match="no values"):
        average([])


def test_sides_take_turns_and_the_best_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    order, now = list[str](), [0.0]
    costs = {"a": iter([9.0, 3.0, 1.0, 2.0]), "b": iter([0.5, 5.0, 4.0, 6.0])}

    def work(name: str) -> None:
        order.append(name)
        now[0] += next(costs[name])

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    told = list[int]()
    best = time_sides({"a": lambda: work("a"), "b": lambda: work("b")}, 3, lambda count=1: told.append(count))
    assert order == ["a", "b"] * 4 and sum(told) == 8
    assert best == {"a": 1.0, "b": 4.0}  # the half second of the first round only warmed up


def test_an_outcome_leaves_every_file(tmp_path: Path, double: Experiment) -> None:
    written = make_outcome(double).save(tmp_path)
    names = ["lab.json", "double-sums.csv", "double-who-and-when.csv", "double.png", "double-2.png", "double.html"]
    assert [path.name for path in written] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    facts = json.loads((tmp_path / "lab.json").read_text(encoding="utf-8"))
    assert facts["tables"]["sums"][0] == ROWS[0]
    assert facts["tables"]["sums"][1]["loss"] is None  # JSON has no NaN
    assert (facts["shown"], facts["finding"], facts["trained"], facts["found"]) == (True, "it is | so.", 2, ["one"])
    with (tmp_path / "double-sums.csv").open(newline="", encoding="utf-8") as file:
        one, other = csv.DictReader(file)
    assert one == {"width": "16", "scale": "on", "loss": "0.5", "exact": "True"}
    assert other["scale"] == "off, or\nnone" and math.isnan(float(other["loss"])) and other["exact"] == ""
    page = (tmp_path / "double.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert "Is it twice?" in page and "it is | so." in page
    with Image.open(tmp_path / "double.png") as picture:
        assert picture.format == "PNG"


def test_numbers_are_written_in_full() -> None:
    assert write_csv([{"a": 1 / 3}]) == f"a\n{1 / 3!r}\n"
    assert write_csv([]) == "\n"
    assert spell("What is 1/√d, by width?", "temperature") == "temperature-what-is-1-d-by-width"


def test_an_experiment_is_performed_in_a_folder_of_its_own(tmp_path: Path, double: Experiment) -> None:
    outcome = perform(double, tmp_path, seed=7, full=True)
    assert outcome.tables["Who (and when)?"] == [{"seed": 7, "size": 2}]
    assert str(outcome.conclusion) == "2 rows say so." and outcome.full
    perform(double, tmp_path)  # its own files are in nobody's way
    facts = json.loads((tmp_path / "double" / "lab.json").read_text(encoding="utf-8"))
    assert facts["seed"] == 1 and facts["seconds"] >= 0


@pytest.mark.parametrize("name", ["double.png", "double-sums.csv", "lab.json", "runs/mine/run.yaml"])
def test_a_strangers_file_is_refused_and_stays(name: str, tmp_path: Path, double: Experiment) -> None:
    path = tmp_path / "double" / name
    path.parent.mkdir(parents=True)
    path.write_text('{"experiment": "mine"}')
    with pytest.raises(InputError, match="no experiment wrote it"):
        perform(double, tmp_path)
    assert path.read_text() == '{"experiment": "mine"}'
    assert len([each for each in (tmp_path / "double").rglob("*") if each.is_file()]) == 1


def test_strange_names_are_in_nobodys_way(tmp_path: Path, double: Experiment) -> None:
    (tmp_path / "double").mkdir()
    (tmp_path / "double" / "notes.txt").write_text("mine")
    perform(double, tmp_path)
    assert (tmp_path / "double" / "notes.txt").read_text() == "mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        perform(double, tmp_path / "file")


def list_sections(page: Path) -> list[str]:
    return [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("## ")]


def test_sections_are_in_the_order_of_the_lectures(tmp_path: Path, double: Experiment) -> None:
    page, later = tmp_path / "docs" / "laboratory.md", choose_experiment("temperature")
    record_outcome(page, make_outcome(later))
    record_outcome(page, make_outcome(double))
    text = page.read_text(encoding="utf-8")
    assert text.startswith(PAGE) and list_sections(page) == ["## double", "## temperature"]
    assert "\n*it is | so.*\n" in text
    assert "`regard lab double --seed 3`: seed 3, 1.0 minutes, 2 models trained, 1 of them before" in text
    record_outcome(page, make_outcome(double))
    assert page.read_text(encoding="utf-8") == text  # the same again changes nothing


def test_a_section_is_replaced_and_the_rest_left_alone(tmp_path: Path, double: Experiment) -> None:
    page = tmp_path / "laboratory.md"
    first, notes, last = (
        "# Mine\nwords\n\n## Preface\n\n  a\n\n",
        "## Notes\none\n\n## Notes\ntwo\n\n",
        "## temperature\nold\n",
    )
    page.write_text(f"{first}{notes}{last}")
    record_outcome(page, make_outcome(double, shown=False))
    text = page.read_text(encoding="utf-8")
    assert list_sections(page) == ["## Preface", "## Notes", "## Notes", "## double", "## temperature"]
    assert text.startswith(f"{first}{notes}") and text.endswith(last)
    assert "*Not shown here: it is | so.*" in text
    record_outcome(page, make_outcome(double, {"others": [{"a": 1}]}))
    again = page.read_text(encoding="utf-8")
    assert again.startswith(f"{first}{notes}") and again.endswith(last)
    assert "others:" in again and "sums:" not in again and "Not shown" not in again


def test_a_folder_is_no_page(tmp_path: Path, double: Experiment) -> None:
    with pytest.raises(InputError, match="is a folder"):
        record_outcome(tmp_path, make_outcome(double))


def test_cells_are_read_by_people() -> None:
    values = [None, math.nan, True, False, 1 / 3, 123456.7, 12345, "a|b\nc"]
    assert [format_value(value) for value in values[:-1]] == ["–", "–", "yes", "no", "0.3333", "123,457", "12,345"]
    assert write_table([{"a": values[-1], "b": 1}]) == ["| a | b |", "| --- | --- |", "| a\\|b c | 1 |"]
    assert write_table([]) == ["(nothing)"]


def test_every_experiment_says_what_it_asks() -> None:
    known = list_experiments()
    assert len({each.place for each in known}) == len(known)
    for each in known:
        assert each.question.endswith("?") and each.claim.endswith(".") and each.method.endswith("."), each.name
        assert 0 < each.minutes <= min(5, each.full_minutes) and each.full_minutes <= 60, each.name


def test_an_unknown_experiment_is_refused_with_a_near_one() -> None:
    with pytest.raises(InputError, match=r"'temprature'.*temperature"):
        choose_experiment("temprature")


def test_a_bench_gives_seeds_and_sizes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, seed=4)
    assert bench.choose("few", "many") == "few" and list(bench.seeds(2, 3)) == [4, 5]
    full = Bench(tmp_path, seed=4, full=True)
    assert full.choose("few", "many") == "many" and list(full.seeds(2, 3)) == [4, 5, 6]
