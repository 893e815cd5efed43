"""ONNX Runtime, as its documentation says: one session, all threads within an operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.harness import Missing, serve
from bench.sides.work import draw_rows, rate


def encode(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Tokens a second of one forward pass."""
    import numpy as np
    import onnxruntime

    if not Path(settings["file"]).is_file():
        raise Missing("the ONNX file couldn't be written")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = settings["threads"], 1
    session = onnxruntime.InferenceSession(settings["file"], options, providers=["CPUExecutionProvider"])
    tokens = np.array(draw_rows(settings), dtype=np.int64)
    inputs = {"tokens": tokens, "valid": np.ones(tokens.shape, dtype=bool)}

    def work() -> int:
        session.run(None, inputs)
        return int(tokens.size)

    return rate(work, settings)


if __name__ == "__main__":
    serve({"encode": encode}, "onnxruntime")
