"""Charts as PNG files: training curves, attention maps, and scores side by side.

Each is built as a figure, which can be looked at or changed, and then written whole or not at all. The colors are those
of Okabe and Ito (2008), which people tell apart whatever their color vision; maps use magma, which grows in lightness.
Drawing is by matplotlib, which comes with the extra `plot`.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from regard.errors import DiskError, InputError, MissingPackage
from regard.lens.grid import check, labels

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

History = Sequence[Mapping[str, Any]]
AttentionTable = tuple[Sequence[str], Sequence[str], Sequence[Sequence[float]]]  # columns, rows, weights
Groups = Mapping[str, Mapping[str, float | None]]

METRICS = {"bleu": "BLEU", "chrf": "chrF", "exact": "exact matches", "accuracy": "accuracy"}
LIKELIHOODS = {"nats": "nats a picture", "bits": "bits a dimension"}
TITLES = {"loss": "loss", **METRICS, **LIKELIHOODS, "rate": "learning rate", "gradient": "gradient norm"}
NOISY = ("loss", "gradient")  # drawn faint, with their running mean over it
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":", "-.")  # these and the patterns come in when the colors are used up
PATTERNS = ("", "//", "..", "xx")
GREY = "#555555"
RESOLUTION = 150  # dots an inch


def curves(histories: Mapping[str, History], path: Path) -> None:
    """Draw the training curves of one or several runs, each the parsed lines of a `metrics.jsonl`."""
    _save(curves_figure(histories), path)


def heatmap(
    columns: Sequence[str], rows: Sequence[str], weights: Sequence[Sequence[float]], path: Path, title: str = ""
) -> None:
    """Draw attention as a map: source pieces or words across the top, target ones down the side."""
    _save(heatmap_figure(columns, rows, weights, title), path)


def bars(groups: Groups, path: Path, title: str, unit: str) -> None:
    """Draw each model's score in each bucket, such as "1–5 words"; None and NaN are left out."""
    _save(bars_figure(groups, title, unit), path)


def curves_figure(histories: Mapping[str, History]) -> Figure:
    """A panel each for the loss, the metrics that occur, the learning rate and the gradient norm."""
    if not histories:
        raise InputError("there is no history to draw")
    for name, history in histories.items():
        if not series(history, "step", "loss"):
            raise InputError(f"the history of {name!r} {'has no steps with a loss' if history else 'is empty'}")
    figure, panels = _panels([key for key in TITLES if _occurs(key, histories)])
    for n, history in enumerate(histories.values()):
        for key, axes in panels.items():
            _curve(axes, history, key, _style(n))
    if any(series(history, "evaluation", "loss") for history in histories.values()):
        panels["loss"].set_title("line: training, dots: validation", loc="right", fontsize=10, color=GREY)
    _legend(figure, [_sample(_style(n)) for n in range(len(histories))], list(histories))
    return figure


def heatmap_figure(
    columns: Sequence[str], rows: Sequence[str], weights: Sequence[Sequence[float]], title: str = ""
) -> Figure:
    """Colors go from no weight to the largest; percentages stand in the cells as long as there are few."""
    check(columns, rows, weights)
    across, down, largest = len(columns), len(rows), max(map(max, weights))
    large = max(across, down) <= 12
    inches = 0.55 if large else 0.3  # of a cell
    figure = begin_figure(2.0 + inches * across, 1.4 + inches * down)
    axes = figure.add_subplot()
    image = axes.imshow([list(row) for row in weights], cmap="magma", vmin=0, vmax=largest or 1)
    axes.xaxis.tick_top()
    axes.set_xticks(range(across), labels(columns), rotation=45, ha="left", rotation_mode="anchor", parse_math=False)
    axes.set_yticks(range(down), labels(rows), parse_math=False)
    axes.tick_params(length=0, labelsize=12 if large else 10)
    axes.spines[:].set_visible(False)
    if across * down <= 100:
        for n, m in product(range(down), range(across)):
            text = f"{100 * weights[n][m]:.0f}"
            ink = "black" if weights[n][m] > 0.6 * largest else "white"
            if text != "0":
                axes.text(m, n, text, ha="center", va="center_baseline", color=ink, fontsize=11)
    scale = figure.colorbar(image, ax=axes, aspect=30, pad=0.02, format=lambda weight, _: f"{100 * weight:.3g} %")
    scale.outline.set_visible(False)
    scale.ax.tick_params(length=0, labelsize=10, labelcolor=GREY)
    if title:
        figure.suptitle(title, fontsize=14, parse_math=False)
    return figure


def maps_figure(maps: Mapping[str, AttentionTable], title: str = "") -> Figure:
    """One map as `heatmap_figure` draws it; several as a sheet, each with its name, in rows of up to eight.

    Words stand beside the maps as long as there are few. Each map's colors go from no weight to its own largest.
    """
    if not maps:
        raise InputError("there is no map to draw")
    if len(maps) == 1:
        [(name, (columns, rows, weights))] = maps.items()
        return heatmap_figure(columns, rows, weights, f"{title}\n{name}" if title else name)
    across = min(8, len(maps))
    down = math.ceil(len(maps) / across)
    longest = max(max(len(columns), len(rows)) for columns, rows, _ in maps.values())
    worded = longest <= 16
    inches = 1.1 + 0.14 * longest if worded else max(1.6, 6.4 / across)
    figure = begin_figure(0.5 + inches * across, 0.8 + inches * down)
    places = figure.subplots(down, across, squeeze=False).flatten()
    for axes in places[len(maps) :]:
        axes.set_axis_off()
    for axes, (name, (columns, rows, weights)) in zip(places, maps.items(), strict=False):
        check(columns, rows, weights)
        axes.imshow([list(row) for row in weights], cmap="magma", vmin=0, vmax=max(map(max, weights)) or 1)
        axes.set_title(name, fontsize=8, color=GREY, parse_math=False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, labelsize=6)
        axes.set_xticks([], [])
        axes.set_yticks([], [])
        if worded:
            axes.set_xticks(range(len(columns)), labels(columns), rotation=90, parse_math=False)
            axes.set_yticks(range(len(rows)), labels(rows), parse_math=False)
    if title:
        figure.suptitle(title, fontsize=12, parse_math=False)
    return figure


def bars_figure(groups: Groups, title: str, unit: str) -> Figure:
    """Buckets stand in the order in which they first occur, each with a bar for every model that has a value."""
    buckets = list(dict.fromkeys(bucket for given in groups.values() for bucket in given))
    kept = [{buckets.index(key): value for key, value in given.items() if _number(value)} for given in groups.values()]
    numbers = [value for values in kept for value in values.values()]
    if not numbers:
        raise InputError("there are no values to draw as bars")
    inches = max(0.5 * (len(groups) + 0.5), 0.3 + 0.09 * max(map(len, buckets)))  # of a bucket
    crowded = inches * len(buckets) > 13
    figure = begin_figure(max(5.0, min(14.0, 1 + inches * len(buckets))), 4.2)
    axes = figure.add_subplot()
    thickness = 0.8 / len(groups)
    drawn = []
    for n, values in enumerate(kept):
        places = [place + thickness * (n - (len(groups) - 1) / 2) for place in values]
        color, pattern = COLORS[n % len(COLORS)], PATTERNS[n // len(COLORS) % len(PATTERNS)]
        drawn.append(axes.bar(places, list(values.values()), 0.92 * thickness, color=color, hatch=pattern, ec="white"))
        if not crowded:
            axes.bar_label(drawn[-1], fmt=_figures(numbers), padding=2, fontsize=10, color=GREY)
    set_plain(axes, title)
    axes.margins(y=0.1)
    axes.grid(False, axis="x")
    turned: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    axes.set_xticks(range(len(buckets)), buckets, parse_math=False, **turned)
    axes.tick_params(axis="x", labelsize=11, labelcolor="black")
    axes.set_ylabel(unit, fontsize=11, color=GREY, parse_math=False)
    _legend(figure, drawn, list(groups))
    return figure


def _figures(values: Sequence[float]) -> str:
    """A format that gives the largest three figures, and all the same decimals."""
    largest = max(map(abs, values))
    return f"{{:.{max(0, 2 - math.floor(math.log10(largest)))}f}}" if largest else "{:.0f}"


def series(history: History, event: str, key: str) -> dict[int, float]:
    """Values by step, in order; where a run went back and came by again, the later line counts."""
    lines = [line for line in history if line.get("event") == event and _number(line.get("step"))]
    return dict(sorted({line["step"]: line[key] for line in lines if _number(line.get(key))}.items()))


def smooth(values: Sequence[float], reach: int) -> list[float]:
    """The mean of each value and its neighbors up to `reach` away.

    At the start, where curves are steep, there are as many after as before, or the mean would lag; at the end there
    are fewer after than before, or it would end in noise.
    """
    sums = [0.0, *accumulate(values)]
    spans = [(max(0, n - reach), n + 1 + min(reach, n, len(values) - 1 - n)) for n in range(len(values))]
    return [(sums[last] - sums[first]) / (last - first) for first, last in spans]


def _occurs(key: str, histories: Mapping[str, History]) -> bool:
    return any(series(history, event, key) for history in histories.values() for event in ("step", "evaluation"))


def _curve(axes: Axes, history: History, key: str, style: dict[str, Any]) -> None:
    """One run in one panel: what training logged as a line, what evaluations found as dots."""
    logged, found = series(history, "step", key), series(history, "evaluation", key)
    if key == "gradient":
        logged = {step: norm for step, norm in logged.items() if norm > 0}  # zero has no place on a log axis
    if logged:
        steps, values = list(logged), list(logged.values())
        reach = len(values) // 50 if key in NOISY else 0
        if reach:
            axes.plot(steps, values, color=style["color"], alpha=0.25, linewidth=0.8)
        axes.plot(steps, smooth(values, reach), marker="o" if len(steps) == 1 else "", **style)
    if found:
        dots = {**style, "linestyle": "" if logged else style["linestyle"], "markeredgecolor": "white", "zorder": 3}
        axes.plot(list(found), list(found.values()), marker="o", markersize=6, **dots)


def _style(n: int) -> dict[str, Any]:
    """How the run of this number is drawn, in every panel."""
    return {"color": COLORS[n % len(COLORS)], "linestyle": DASHES[n // len(COLORS) % len(DASHES)], "linewidth": 1.8}


def _sample(style: dict[str, Any]) -> Artist:
    from matplotlib.lines import Line2D

    return Line2D([], [], **style)


def _panels(keys: Sequence[str]) -> tuple[Figure, dict[str, Axes]]:
    """Two panels side by side; of an odd number, the first takes a line for itself."""
    odd = len(keys) % 2
    height = (len(keys) + odd) // 2
    figure = begin_figure(10, 0.6 + 2.7 * height)
    from matplotlib.ticker import (
        LogLocator,
        MaxNLocator,
        NullLocator,
    )  # only now: the figure tells what's missing

    places = figure.add_gridspec(height, 2)
    panels: dict[str, Axes] = {}
    for n, key in enumerate(keys):
        place = places[0, :] if odd and n == 0 else places[divmod(n + odd, 2)]
        axes = panels[key] = figure.add_subplot(place, sharex=panels.get(keys[0]))
        set_plain(axes, TITLES[key])
        axes.margins(x=0.02)
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
        axes.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
        if key == "gradient":
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        if n >= len(keys) - 2:
            axes.set_xlabel("steps", fontsize=11, color=GREY)
    return figure, panels


def set_plain(axes: Axes, title: str) -> None:
    """Nothing but the data, two axes and faint lines to read it by."""
    axes.set_title(title, loc="left", fontsize=12, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#BBBBBB")
    axes.tick_params(length=0, labelsize=10, labelcolor=GREY)
    axes.grid(color="#E5E5E5", linewidth=0.8)
    axes.set_axisbelow(True)


def _legend(figure: Figure, drawn: Sequence[Any], names: Sequence[str]) -> None:
    """Above everything, and only where there are several names."""
    if len(names) > 1:
        look: dict[str, Any] = {"ncols": min(4, len(names)), "frameon": False, "fontsize": 11}
        legend = figure.legend(drawn, names, loc="outside upper center", **look)
        for text in legend.get_texts():
            text.set_parse_math(False)


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def begin_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches, apart from whatever else the process draws."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise MissingPackage("drawing", "matplotlib", "plot") from error
    layout = ConstrainedLayoutEngine(h_pad=0.05, w_pad=0.05, hspace=0.07, wspace=0.04, compress=True)
    figure = Figure((width, height), dpi=RESOLUTION, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def encode_figure(figure: Figure, kind: str) -> bytes:
    """A figure as the bytes of a file: png or svg."""
    from matplotlib import rc_context

    content = io.BytesIO()
    with rc_context({"svg.hashsalt": "regard"}):  # the same figure is the same file
        about = {"Date": None} if kind == "svg" else {}
        figure.savefig(content, format=kind, dpi=RESOLUTION, bbox_inches="tight", pad_inches=0.15, metadata=about)
    return content.getvalue()


def _save(figure: Figure, path: Path) -> None:
    """Write beside, then put in place: who looks finds the old file or the new one."""
    content = encode_figure(figure, "png")
    aside = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        aside.write_bytes(content)
        os.replace(aside, path)
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # it is gone if all went well
            aside.unlink()
