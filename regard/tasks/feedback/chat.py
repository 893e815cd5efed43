"""What all tasks on conversations have: the format in which a model reads them."""

from __future__ import annotations

from regard.data.dialogue import ChatFormat, FormatName, find_format
from regard.tasks.task import TaskSpec


class ChatTaskSpec(TaskSpec):
    """Learn from what was said."""

    format: FormatName = "turns"
    """Conversations are written down for the model in this format."""

    @property
    def chat(self) -> ChatFormat:
        """The format itself."""
        return find_format(self.format)

    @property
    def special(self) -> tuple[str, ...]:
        return self.chat.controls
