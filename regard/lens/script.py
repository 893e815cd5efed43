"""The viewer's files as one script and one style sheet, for a page that fetches nothing.

The folder `viewer` is the registry: the kind of a figure is the name of the module that draws it. A page carries that
module, what it imports, and the style sheets of the same names. Between the modules, `import` lines and the word
`export` are dropped, so all of them stand in one scope: no two may give a top-level name twice (a test holds that).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from regard.core.hint import suggest
from regard.errors import InputError

VIEWER = Path(__file__).parent / "viewer"
START = "start"  # reads the page's data and draws its figures; always there, and always last
BASE = "base"  # the style sheet of every page
IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?function|class|const)", re.MULTILINE)
DRAWS = re.compile(r'^define\("(\w+)"', re.MULTILINE)


def kinds() -> list[str]:
    """The kinds of figures that the viewer can draw."""
    return sorted(path.stem for path in VIEWER.glob("*.js") if DRAWS.search(path.read_text("utf-8")))


def check_kind(kind: str) -> None:
    """Refuse a kind that no module draws."""
    known = kinds()
    if kind not in known:
        raise InputError(f"there is no figure of the kind {kind!r}{suggest(kind, known)}")


def order(names: Iterable[str]) -> list[str]:
    """Modules with all that they import, each after what it imports."""
    found: list[str] = []

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"modules import each other: {' > '.join([*above, name])}"
        if name not in found:
            for needed in IMPORT.findall(read(f"{name}.js")):
                visit(needed, (*above, name))
            found.append(name)

    for name in names:
        visit(name, ())
    return found


def read(name: str) -> str:
    """A file of the viewer."""
    return (VIEWER / name).read_text("utf-8")


def make_script(kinds: Iterable[str]) -> str:
    """All modules that draw these kinds, as the text of one module."""
    parts = [EXPORT.sub("", IMPORT.sub("", read(f"{name}.js"))) for name in order([*kinds, START])]
    return "\n".join(parts)


def make_style(kinds: Iterable[str]) -> str:
    """Their style sheets, the common one first."""
    names = [BASE, *(name for name in order([*kinds, START]) if name != BASE)]
    return "\n".join(read(f"{name}.css") for name in names if (VIEWER / f"{name}.css").exists())
