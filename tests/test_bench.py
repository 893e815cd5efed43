"""The pure parts of the measuring harness: ratios, the best of turns, exponents, and a page keyed by machine."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from bench.growth import fit_exponent
from bench.harness import AVX2, Missing, Side, Worker, name_instructions, read_speed, take_turns
from bench.page import HEAD, Bar, Better, Table, choose_best, put_table, read_rows, tell_figure
from bench.precision import list_bars
from bench.sides.llama import rename
from bench.sides.plain import Plain
from bench.sides.plain import rename as name_plainly
from bench.sides.work import draw_rows, slice_rows, tell_in_turn
from regard.models import preset

ABOUT = {"measured": "best of 3", "machine": "2 cores", "versions": "torch 1"}
BAR = Bar("ours ÷ the better", ("ours", "ours int8"), ("one", "other"), least=1.2)
TABLE = Table("Speed", "tokens a second", ("ours", "ours int8", "one", "other"), (BAR,), command="python -m bench.x")


@pytest.mark.parametrize(("better", "ratio"), [("more", 300 / 200), ("less", 100 / 50)])
def test_a_ratio_is_the_best_of_ours_to_the_best_of_theirs(better: Better, ratio: float) -> None:
    figures = {"ours": 100.0, "ours int8": 300.0, "one": 200.0, "other": 50.0}
    assert BAR.ratio(figures, better) == pytest.approx(ratio)


def test_a_missing_side_has_no_part_in_a_ratio() -> None:
    figures: dict[str, float | str] = {"ours": 100.0, "one": "it doesn't build", "other": 50.0}
    assert BAR.ratio(figures, "more") == 2.0
    nobody: dict[str, float | str] = {"ours": 100.0, "one": "it doesn't build", "other": "nor this"}
    assert BAR.ratio(nobody, "more") is None
    assert BAR.holds(nobody, "more")
    assert not BAR.holds({**nobody, **dict.fromkeys(BAR.ours, "too few steps")}, "more")  # ours must be there
    assert BAR.tell(nobody, "more") == "– (≥ 1.2)"
    assert choose_best(nobody, ("one", "other"), "less") is None


def test_a_promise_that_is_not_kept_is_marked() -> None:
    figures = {"ours": 110.0, "one": 100.0}
    assert BAR.tell(figures, "more") == "1.10 (≥ 1.2) ✗"
    assert not BAR.holds(figures, "more")
    assert Bar("memory", ("ours",), ("one",), most=1.2).tell(figures, "less") == "1.10 (≤ 1.2)"
    assert Bar("told only", ("ours",), ("one",)).tell(figures, "more") == "1.10"


def test_sides_take_turns_and_the_best_counts() -> None:
    asked: list[str] = []

    def side(name: str, figures: list[float]) -> Callable[[], float]:
        def measure() -> float:
            asked.append(name)
            return figures.pop(0)

        return measure

    def broken() -> float:
        asked.append("broken")
        raise Missing("it isn't there")

    found = take_turns({"a": side("a", [1, 3]), "broken": broken, "b": side("b", [5, 4])}, 2, "more")
    assert found == {"a": 3, "broken": "it isn't there", "b": 5}
    assert asked == ["a", "broken", "b", "a", "b"]
    assert take_turns({"a": side("a", [2, 1, 3])}, 3, "less") == {"a": 1}


def test_a_side_that_hangs_is_missing_and_stops_nobody() -> None:
    shape = {"batch": 1, "time": 2, "width": 8, "whole": True}
    with pytest.raises(Missing, match=r"no answer after 0.01 s"):  # it hasn't even imported torch by then
        Worker(Side("ours", "learner", "scan", shape, "ours", longest=0.01), threads=1)


def test_rows_of_two_machines_stand_beside_each_other() -> None:
    def row(case: str, machine: str, speed: float) -> dict[str, str]:
        return TABLE.row(case, machine, {"ours": speed, "one": 100.0}, ABOUT)

    page = ""
    for case, machine, speed in (("tiny", "AVX2", 1.0), ("base", "AVX2", 2.0), ("tiny", "AVX-512", 3.0)):
        page = put_table(page, TABLE, [row(case, machine, speed)])
    page = put_table(page, TABLE, [row("tiny", "AVX2", 4.0)])  # measured again
    rows = read_rows(page)
    assert [(r["case"], r["instructions"], r["ours"]) for r in rows] == [
        ("tiny", "AVX-512", "3"),
        ("tiny", "AVX2", "4"),
        ("base", "AVX2", "2"),
    ]
    assert page.startswith("# Benchmarks\n") and page.endswith("|\n")


def test_a_section_leaves_the_others_as_they_are() -> None:
    other = Table("Memory", "megabytes", ("ours",), better="less")
    first = put_table("", TABLE, [TABLE.row("a | b", "AVX2", {"ours": 1.0}, ABOUT)])
    both = put_table(first, other, [other.row("c", "AVX2", {"ours": 2.0}, ABOUT)])
    assert both.startswith(first.rstrip("\n"))
    assert read_rows(first)[0]["case"] == "a | b"
    assert put_table(both, other, [other.row("c", "AVX2", {"ours": 2.0}, ABOUT)]) == both


def test_what_is_said_above_the_tables_is_always_what_the_program_says() -> None:
    row = TABLE.row("tiny", "AVX2", {"ours": 1.0}, ABOUT)
    page = put_table("", TABLE, [row])
    old = page.replace(HEAD, "# Benchmarks\nAs it was before.\n")
    assert old != page and put_table(old, TABLE, [row]) == page


def test_a_note_stands_between_the_unit_and_the_figures() -> None:
    table = Table("Loss", "nats", ("ours",), note="Both have the same batches.", places=5)
    page = put_table("", table, [table.row("tiny", "AVX2", {"ours": 4.12345}, ABOUT)])
    assert "Nats.\n\nBoth have the same batches.\n\n| case" in page
    assert read_rows(page)[0]["ours"] == "4.1235"
    assert put_table(page, table, [table.row("tiny", "AVX2", {"ours": 4.12345}, ABOUT)]) == page


def test_a_column_that_a_table_no_longer_has_is_kept_with_its_rows() -> None:
    wide = Table("Speed", "tokens a second", ("ours", "gone"))
    narrow = Table("Speed", "tokens a second", ("ours",))
    page = put_table("", wide, [wide.row("tiny", "AVX2", {"ours": 1.0, "gone": 2.0}, ABOUT)])
    page = put_table(page, narrow, [narrow.row("tiny", "AVX-512", {"ours": 3.0}, ABOUT)])
    assert [row["gone"] for row in read_rows(page)] == ["–", "2"]


def test_what_is_missing_says_why() -> None:
    assert tell_figure("no compiler\nand more") == "missing: no compiler"
    assert TABLE.row("tiny", "AVX2", {"one": "no compiler"}, ABOUT)["one"] == "missing: no compiler"
    assert tell_figure(12345.6) == "12,346"
    assert tell_figure(0.12345) == "0.123"


@pytest.mark.parametrize(
    ("flags", "told", "name"),
    [
        ({"avx2", "fma"}, {}, "AVX2"),
        ({"avx2", "avx_vnni"}, {}, "AVX2 (VNNI)"),
        ({"avx2", "avx512f", "avx512_bf16", "avx512_vnni"}, {}, "AVX-512 (bf16, VNNI)"),
        ({"avx512f"}, {"ATEN_CPU_CAPABILITY": "avx2"}, "AVX-512, ATEN_CPU_CAPABILITY=avx2"),
        ({"avx512f", "avx512_vnni"}, AVX2, "AVX2, all told to do without AVX-512 (VNNI)"),
    ],
)
def test_a_machine_is_known_by_its_instructions(flags: set[str], told: dict[str, str], name: str) -> None:
    assert name_instructions(flags, told) == name


def test_who_cannot_be_told_to_do_without_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in AVX2.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Missing, match="without AVX-512"):
        Worker(Side("llama.cpp", "llama", "generate"), 1)


def test_exponents_are_slopes_of_logarithms() -> None:
    sizes = [1.0, 2.0, 4.0, 8.0]
    for power in (0.0, 0.5, 1.0, 2.0):
        assert fit_exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(power)
    assert fit_exponent([1, 2, 4], [1, 2 * math.e, 4]) == pytest.approx(1.0)  # one in the middle doesn't turn it
    with pytest.raises(Missing, match="no exponent"):
        fit_exponent(sizes, [1, 2, 0, 4])


def test_all_sides_are_given_the_same_rows() -> None:
    settings = {"rows": 5, "shortest": 2, "longest": 9, "vocabulary": 20}
    rows = draw_rows(settings)
    assert rows == draw_rows(settings)
    assert [len(row) for row in rows] == sorted(len(row) for row in rows)
    assert all(4 <= token < 20 for row in rows for token in row)
    assert [len(batch) for batch in slice_rows(rows, 2)] == [2, 2, 1]


def test_the_plain_loop_s_model_is_ours_once_it_has_the_same_weights() -> None:
    torch.manual_seed(0)
    ours = preset("transformer-tiny", width=32, depth=2, heads=4, hidden=48, vocabulary=50).build().eval()
    plain = Plain(50, 32, 4, 48, 2, 0.1).eval()
    plain.load_state_dict({name_plainly(name): weight for name, weight in ours.state_dict().items()})
    source, target = torch.randint(4, 50, (3, 7)), torch.randint(4, 50, (3, 9))
    real = torch.arange(7)[None] < torch.tensor([7, 4, 1])[:, None]
    with torch.no_grad():
        expected = ours(target, ours.encode(source, valid=real))
        assert (plain(source, real, target) - expected).abs().max() < 1e-5


def test_figures_of_one_long_piece_of_work_are_told_one_by_one() -> None:
    done: list[int] = []

    def find_all() -> list[float]:
        done.append(1)
        return [len(done), 10.0 * len(done)]

    measure = tell_in_turn(find_all)
    assert [measure() for _ in range(4)] == [1.0, 10.0, 2.0, 20.0]


def test_a_difference_may_be_promised_instead_of_a_ratio() -> None:
    bar = Bar("int8 against fp32", ("int8",), ("fp32",), least=-0.3, how="−")
    assert bar.tell({"int8": 41.5, "fp32": 41.6}, "more") == "-0.10 (≥ -0.3)"
    assert bar.tell({"int8": 41.0, "fp32": 41.6}, "more") == "-0.60 (≥ -0.3) ✗"
    assert bar.ratio({"int8": 1.0, "fp32": 0.0}, "more") == 1.0


def test_half_precision_is_promised_to_lose_a_tenth_of_what_8_bits_may_lose() -> None:
    falling = {bar.title: bar.most for bar in list_bars("perplexity", rising=False)}
    rising = {bar.title: bar.least for bar in list_bars("bleu", rising=True)}
    assert falling["int8 against fp32"] == 1.01 and falling["fp16 against fp32"] == pytest.approx(1.001)
    assert rising["int8 against fp32"] == -0.3 and rising["bf16 against fp32"] == pytest.approx(-0.03)
    assert {bar.least for bar in list_bars("accuracy", rising=True)} == {None}  # told only


def test_tensors_are_named_as_llama_cpp_names_them() -> None:
    assert rename("transformer.h.11.attn.c_attn.bias") == "blk.11.attn_qkv.bias"
    assert rename("transformer.ln_f.weight") == "output_norm.weight"
    assert rename("wte.weight") == "token_embd.weight"


def test_a_program_s_own_reports_are_its_speed_and_silence_is_missing() -> None:
    say = "for speed in (1, 30, 50, 40): print('Tokens per Sec:', speed)"
    assert read_speed("it", [sys.executable, "-c", say], r"Tokens per Sec:\s*([\d.]+)") == 40.0  # the first warms up
    with pytest.raises(Missing, match="it didn't train: it said nothing"):
        read_speed("it", [sys.executable, "-c", "pass"], r"Tokens per Sec:\s*([\d.]+)")


def test_a_side_that_could_not_measure_once_is_asked_again() -> None:
    """A machine that is too busy in one round, or beside a neighbour, may not be so in the next."""
    say = "from bench.harness import AVX2, Missing, serve\n"
    say += "def measure():\n    if found := tries.pop(0): return found\n    raise Missing('too few steps')\n"
    say += "tries = [1.0, None, 2.0]\nserve({'job': lambda _: measure})"
    done = subprocess.run(
        [sys.executable, "-c", say, "job"], input="{}\n" + 3 * "go\n", capture_output=True, text=True, check=False
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers == [{"versions": {}}, {"figure": 1.0}, {"missing": "too few steps"}, {"figure": 2.0}], done.stderr
