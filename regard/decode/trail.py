"""What the rows of a request have written: who went on from whom, step by step.

A beam is re-ordered at every step, and few ask for all that its rows have written: a rule that looks back, and whoever
takes a finished row. So a step is noted as it is, and rows are put together when somebody asks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Written:
    """One step: the rows that went on, and what each wrote."""

    rows: list[int]  # as they were numbered before
    tokens: list[int]
    logs: list[float]  # the model's own log-probabilities


class Trail:
    """The steps of all rows."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.device = device
        self.steps: list[Written] = []
        self._tokens = torch.zeros(rows, 0, dtype=torch.long, device=device)  # of the first steps, put together
        self._logs = torch.zeros(rows, 0, device=device)

    @property
    def written(self) -> int:
        """How many tokens each row has."""
        return len(self.steps)

    @property
    def last(self) -> list[int]:
        """The token that each row wrote last."""
        return self.steps[-1].tokens

    def write(self, rows: list[int], tokens: list[int], logs: list[float]) -> None:
        """Note a step."""
        self.steps.append(Written(rows, tokens, logs))

    def trace(self, row: int) -> tuple[list[int], list[float]]:
        """What one row has written, and the log-probability of each token."""
        tokens, logs = list[int](), list[float]()
        for step in reversed(self.steps):
            tokens.append(step.tokens[row])
            logs.append(step.logs[row])
            row = step.rows[row]
        return tokens[::-1], logs[::-1]

    @property
    def tokens(self) -> Tensor:
        """What all rows have written: (rows, written)."""
        self._put_together()
        return self._tokens

    @property
    def logs(self) -> Tensor:
        """The log-probabilities of that: (rows, written)."""
        self._put_together()
        return self._logs

    def _put_together(self) -> None:
        for step in self.steps[self._tokens.shape[1] :]:
            rows = torch.tensor(step.rows, dtype=torch.long, device=self.device)
            tokens, logs = self._tokens.new_tensor(step.tokens), self._logs.new_tensor(step.logs)
            self._tokens = torch.cat((self._tokens[rows], tokens[:, None]), 1)
            self._logs = torch.cat((self._logs[rows], logs[:, None]), 1)
