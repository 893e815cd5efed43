"""CTranslate2, as its documentation says: one translator or generator, all threads within it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.harness import Missing, serve
from bench.sides.work import draw_rows, rate, slice_rows


def open_model(kind: str, settings: Mapping[str, Any], names: str) -> tuple[Any, list[list[str]]]:
    """The model, and the rows as words: it takes no numbers."""
    import ctranslate2

    folder = Path(settings["folder"])
    if not (folder / names).exists():
        raise Missing(f"{folder.name} couldn't be written")
    words = json.loads((folder / names).read_text())
    threads = {"inter_threads": 1, "intra_threads": settings["threads"]}
    model = getattr(ctranslate2, kind)(str(folder), device="cpu", compute_type=settings["precision"], **threads)
    if model.compute_type != settings["precision"]:
        raise Missing(f"{settings['precision']} isn't to be had here, it would compute in {model.compute_type}")
    return model, [[words[token] for token in row] for row in draw_rows(settings)]


def translate(settings: Mapping[str, Any]) -> Callable[[], float]:
    model, rows = open_model("Translator", settings, "shared_vocabulary.json")
    steps, batches = settings["steps"], slice_rows(rows, settings["batch"])

    def work() -> int:
        count = 0
        for batch in batches:
            limits = {"min_decoding_length": steps, "max_decoding_length": steps, "max_batch_size": 0}
            found = model.translate_batch(batch, beam_size=settings["beam"], **limits)
            assert all(len(row.hypotheses[0]) == steps for row in found), "another length than the others have"
            count += steps * len(found)
        return count

    return rate(work, settings)


def write(settings: Mapping[str, Any]) -> Callable[[], float]:
    model, rows = open_model("Generator", settings, "vocabulary.json")
    steps = settings["steps"]

    def work() -> int:
        limits = {"min_length": steps, "max_length": steps, "include_prompt_in_result": False}
        found = model.generate_batch(rows, beam_size=1, **limits)
        assert all(len(row.sequences_ids[0]) == steps for row in found), "another length than the others have"
        return int(steps * len(found))

    return rate(work, settings)


def prefill(settings: Mapping[str, Any]) -> Callable[[], float]:
    model, rows = open_model("Generator", settings, "vocabulary.json")

    def work() -> int:
        limits = {"min_length": 1, "max_length": 1, "include_prompt_in_result": False}
        model.generate_batch(rows, beam_size=1, **limits)
        return int(sum(map(len, rows)))

    return rate(work, settings)


if __name__ == "__main__":
    serve({"translate": translate, "write": write, "prefill": prefill}, "ctranslate2")
