"""Figures of a report, made up: three runs with curves, evaluations, samples, settings, and every kind of trouble."""

from __future__ import annotations

from typing import Any

from regard.lens.curves import read_curves
from regard.lens.page import Figure
from tests.lens import looks

RUNS = ["attention", "runs/long/transformer", "short"]


def make_history(steps: int, scale: float) -> list[dict[str, Any]]:
    """A loss that falls, and an evaluation every tenth step."""
    found: list[dict[str, Any]] = []
    for step in range(1, steps + 1):
        told = {"loss": scale / step, "rate": 0.001, "gradient": 1 + step % 3, "tokens": 100 * step}
        found.append({"event": "step", "step": step, **told, "seconds": 0.5 * step, "tokens_per_second": 200.0})
        if step % 10 == 0:
            measured = {"bleu": step / 2, "loss": scale / step, "loss_low": scale / step / 2, "loss_high": scale / 5}
            best = {"best": True, "seconds": 0.5 * step, "sentences": 12}
            found.append({"event": "evaluation", "step": step, **best, **measured})
    return found


def make_curves(runs: list[str] = RUNS, steps: tuple[int, ...] = (40, 60, 20)) -> Figure:
    histories = [make_history(count, 5.0 + n) for n, count in enumerate(steps[: len(runs)])]
    told = [{"label": label, **read_curves(one).as_json()} for label, one in zip(runs, histories, strict=True)]
    noisy = ("loss", "gradient", "tokens_per_second")
    panels = [
        {"name": name, "title": name, "logarithmic": name == "gradient", "noisy": name in noisy}
        for name in ("loss", "bleu", "rate", "gradient", "tokens_per_second")
    ]
    return Figure("curves", {"runs": told, "panels": panels, "note": "A note."})


def make_summary(runs: list[str] = RUNS, note: str = "metrics.jsonl: damaged") -> Figure:
    facts: list[dict[str, Any]] = [
        {"name": "state", "unit": "text", "values": ["done", "stopped at 50%", "damaged"]},
        {"name": "parameters", "unit": "count", "values": [1234567, 5, None]},
        {"name": "time", "unit": "seconds", "values": [12.0, 125.0, 7300.0]},
        {"name": "speed", "unit": "tokens a second", "values": [1234.5, None, None]},
        {"name": "peak memory", "unit": "bytes", "values": [123, 4_560_000, 7.8e9]},
        {"name": "data", "unit": "digest", "values": ["0123456789abcdef" * 4] * 3},
        {"name": "changed", "unit": "date", "values": [0.0, 1e9, None]},
    ]
    cut = [{**fact, "values": fact["values"][: len(runs)]} for fact in facts]
    data = {"runs": runs, "states": ["done", "stopped", "damaged"][: len(runs)], "facts": cut}
    return Figure("summary", data | {"notes": [{"run": 0, "text": note}], "made": 1e9, "version": "0.1"})


def make_evaluations(runs: list[str] = RUNS, word: str = "test") -> Figure:
    def row(run: int, step: int, bleu: float, chosen: bool) -> dict[str, Any]:
        values = {"bleu": [bleu, None, None], "loss": [1.0, 0.5, 1.5]}
        return {
            "run": run,
            "step": step,
            "minutes": 0.5,
            "chosen": chosen,
            "values": values,
            "counts": {"sentences": 9},
        }

    measures = [{"name": "bleu", "title": "BLEU", "rising": True}, {"name": "loss", "title": "loss", "rising": False}]
    rows = [row(run, step, run + step, step == 20) for run in range(len(runs)) for step in (10, 20)]
    test = {"run": 0, "step": 20, "data": word, "with": [word], "time": 1e9, "values": {"bleu": [1.0, None, None]}}
    data = {"runs": runs, "goals": ["bleu"] * len(runs), "measures": measures, "rows": rows, "tests": [test]}
    return Figure("evaluations", data | {"winners": {"bleu": [len(runs) - 1]}, "note": "Be careful."})


def make_samples(runs: list[str] = RUNS, word: str = "le petit chat") -> Figure:
    def group(
        roles: list[str], given: list[str], expected: list[str], answer: list[str], **more: Any
    ) -> dict[str, Any]:
        answers = [
            {"run": n, "answer": answer, "right": [True, False, None][n], "note": "7 %"} for n in range(len(runs))
        ]
        return {"roles": roles, "given": given, "expected": expected, "aligned": False, "answers": answers, **more}

    groups = [
        group(["source", "reference", "translation"], [word], ["le chat dort"], [word]),
        group(["prompt", "how it goes on", "continuation"], [f"a\n\tb {word}"], ["c\nd"], [f"e\nf {word}"]),
        group(["words", "tags", "answer"], ["the", word], ["DET", "NOUN"], ["DET", "VERB"], aligned=True),
        group(["text", "hidden", "guesses"], [word, word], [], [word, word]),
    ]
    return Figure(
        "samples", {"runs": runs, "groups": groups, "splits": ["validation"], "notes": [{"run": 0, "text": word}]}
    )


def make_settings(runs: list[str] = RUNS, word: str = "transformer-tiny") -> Figure:
    differing = [{"key": "model.kind", "values": [word, None, "gru"][: len(runs)]}] if len(runs) > 1 else []
    equal = [{"key": "seed", "value": "1"}, {"key": f"x.{word}", "value": word}]
    files = [{"run": n, "text": f"model: {word}\n  seed: 1\n"} for n in range(len(runs))]
    return Figure("settings", {"runs": runs, "differing": differing, "equal": equal, "files": files})


def make_looks(runs: list[str] = RUNS, word: str = "the cat") -> Figure:
    told, arrays = [], dict[str, Any]()
    for run in range(len(runs)):
        figure = looks.single()
        maps = [{**each, "array": f"{run}/{each['array']}"} for each in figure.data["maps"]]
        told.append({"run": run, "data": {**figure.data, "maps": maps}})
        arrays |= {f"{run}/{name}": array for name, array in figure.arrays.items()}
    return Figure("looks", {"runs": runs, "texts": [{"text": word, "looks": told}]}, arrays)


def make_report(runs: list[str] = RUNS, word: str = "le petit chat") -> list[Figure]:
    """All of it; `word` stands wherever a file or a model may say something."""
    return [
        make_summary(runs, word),
        make_curves(runs),
        make_evaluations(runs, word),
        make_samples(runs, word),
        make_looks(runs, word),
        make_settings(runs, word),
    ]
