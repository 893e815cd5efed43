"""What rows have written, whoever asks and whenever."""

from __future__ import annotations

from random import Random

import torch

from regard.decode.trail import Trail


def test_all_rows_together_are_what_each_is_alone() -> None:
    luck = Random(0)
    trail, plain = Trail(3, torch.device("cpu")), [([], []) for _ in range(3)]  # type: ignore[var-annotated]
    assert trail.tokens.shape == (3, 0) and trail.trace(1) == ([], [])
    for step in range(12):
        rows = [luck.randrange(len(plain)) for _ in range(luck.choice([2, 3, 4]))]
        tokens, logs = [luck.randrange(100) for _ in rows], [-luck.randrange(64) / 8 for _ in rows]
        trail.write(rows, tokens, logs)
        steps = zip(rows, tokens, logs, strict=True)
        plain = [([*plain[row][0], token], [*plain[row][1], log]) for row, token, log in steps]
        assert trail.written == step + 1 and trail.last == tokens
        assert [trail.trace(row) for row in range(len(rows))] == plain
        if step % 4 == 1:  # some steps have been put together, and others not
            assert trail.tokens.tolist() == [tokens for tokens, _ in plain]
            assert trail.logs.tolist() == [logs for _, logs in plain]


def test_rows_that_all_went_have_written_nothing() -> None:
    trail = Trail(2, torch.device("cpu"))
    trail.write([], [], [])
    assert trail.tokens.shape == (0, 1)
