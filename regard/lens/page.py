"""A page: figures in one HTML file that can be mailed. It fetches nothing, and lets nothing be fetched.

Whatever a figure says is text, never markup: data stands in blocks that no browser runs, the viewer's modules put it
into the page as text nodes, and the file's own Content-Security-Policy runs the one script whose digest it names.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from regard.errors import InputError
from regard.lens.chunk import Array, encode
from regard.lens.script import check_kind, make_script, make_style

UNTITLED = "regard"  # what a page without a title is called
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="page">
<header class="masthead"><h1>{title}</h1></header>
<noscript>This page is drawn by a script of its own, and scripts are off.</noscript>
</div>
<script type="application/json" id="header">{header}</script>
<script type="module" async>{script}</script>
{chunks}
</body>
</html>
"""


@dataclass(frozen=True)
class Figure:
    """What a page shows: data for one component of the viewer.

    `data` is plain JSON, and refers to `arrays` by their names. Maps (heads, queries, keys) may be rounded for drawing
    where there are many (`chunk.py`); all other arrays are exact, as float32.
    """

    kind: str
    data: Mapping[str, Any]
    arrays: Mapping[str, Array] = field(default_factory=dict)


def make_page(title: str, figures: Sequence[Figure]) -> str:
    """One whole HTML file with these figures, one below the other."""
    if not figures:
        raise InputError("a page without figures shows nothing", "at least one Figure")
    for figure in figures:
        check_kind(figure.kind)
    entries, texts = encode([figure.arrays for figure in figures])
    told = [
        {"kind": figure.kind, "data": figure.data, "arrays": entry}
        for figure, entry in zip(figures, entries, strict=True)
    ]
    kinds = dict.fromkeys(figure.kind for figure in figures)
    script, style = make_script(kinds), make_style(kinds)
    return PAGE.format(
        policy=make_policy(script, style),
        title=escape(clean_title(title)),
        style=style,
        header=write_json({"title": title, "figures": told}),
        script=script,
        # the viewer comes first and the data last, so that there is something to see before all is read
        chunks="\n".join(f'<script type="text/plain" id="chunk-{n}">{text}</script>' for n, text in enumerate(texts)),
    )


def embed_page(html: str, height: int = 720) -> str:
    """A page inside another one, as notebooks show it: a frame that can't reach what is around it."""
    return (
        f'<iframe srcdoc="{escape(html)}" sandbox="allow-scripts allow-downloads" title="{UNTITLED}" '
        f'style="width: 100%; height: {int(height)}px; border: 0"></iframe>'
    )


def make_policy(script: str, style: str) -> str:
    """Allow this script, this style sheet and pictures that stand in the page, and nothing else; no text is markup."""
    rules = [
        "default-src 'none'",
        f"script-src {digest(script)}",
        f"style-src {digest(style)}",
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    return "; ".join(rules)


def digest(text: str) -> str:
    """How a policy names a text that may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def write_json(value: Any) -> str:
    """JSON that can stand in a page whatever it says: ASCII, and without the signs that markup is made of."""
    text = json.dumps(clean(value), separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&]", lambda sign: f"\\u{ord(sign[0]):04x}", text)


def clean(value: Any) -> Any:
    """JSON has no infinite numbers: they become null, which is shown as a dash."""
    if isinstance(value, Mapping):
        return {str(key): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def clean_title(title: str) -> str:
    """A title on one line that UTF-8 can write."""
    whole = title.encode("utf-8", "replace").decode()
    return "".join(sign if sign.isprintable() else " " for sign in whole).strip() or UNTITLED
