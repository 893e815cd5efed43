"""The command line: each verb parses its words and calls one function. Results go to stdout and nothing else does."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from regard.cli.words import app
from regard.errors import RegardError

__all__ = ["app", "run"]

for name in ("look", "train", "use", "exchange"):  # in the order in which help lists their verbs
    import_module(f"regard.cli.{name}")


def run() -> None:
    """The program: a user's mistake is told in one message and an exit status, without a traceback."""
    try:
        app()
    except RegardError as error:
        print(f"regard: {error}", file=sys.stderr)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # whoever read the results has seen enough; nothing may be flushed into a closed pipe at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
