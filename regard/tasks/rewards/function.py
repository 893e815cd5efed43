"""A reward by program: a function of one's own, in a plug-in that the run file names in `uses`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal

from regard.core.plugins import LOADED, Plugin
from regard.data.sample import Sample
from regard.decode.pipeline import Pipeline
from regard.errors import PluginError
from regard.tasks.rewards.reward import SHOWN, Prompt, RewardSpec, tell_prompt


class FunctionReward(RewardSpec):
    """What `def grade(prompt, answer, sample) -> float` says, in a file that `uses` names.

    `prompt` and `answer` are texts, `sample` has all fields of the sample, the messages of its `prompt` among them.
    """

    kind: Literal["function"] = "function"
    name: str = "grade"
    """The function's name."""

    def describe(self) -> str:
        return self.name

    def score(
        self, prompts: Sequence[Prompt], answers: Sequence[str], samples: Sequence[Sample], judge: Pipeline | None
    ) -> list[float]:
        plugin, function = find_function(self.name)
        found = list[float]()
        for prompt, answer, sample in zip(prompts, answers, samples, strict=True):
            text = tell_prompt(prompt)
            try:
                found.append(float(function(text, answer, sample)))
            except Exception as error:  # it is another's program, and may fail in any way
                raise PluginError(
                    f"{plugin.place}: {self.name} fails for the answer {answer[:SHOWN]!r} to the prompt "
                    f"{text[:SHOWN]!r}: {type(error).__name__}: {error}",
                    "a number for every answer, an empty one too",
                ) from error
        return found


def find_function(name: str) -> tuple[Plugin, Callable[..., Any]]:
    """A function of a plug-in that was loaded, by its name."""
    found = {
        plugin.name: (plugin, function)
        for plugin in LOADED.plugins.values()
        if callable(function := vars(sys.modules[plugin.module]).get(name))
    }
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise PluginError(
            f"task.reward.name: {' and '.join(found)} each have a function {name}", "another name for one"
        )
    loaded = ", ".join(LOADED.plugins) or "none is"
    raise PluginError(
        f"task.reward.name: no plug-in that is loaded has a function {name}; loaded: {loaded}",
        f"uses: [my_reward.py] in the run file, and in that file: def {name}(prompt, answer, sample)",
    )
