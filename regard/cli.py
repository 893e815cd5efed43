"""The command line: each verb parses its words and calls one function. Results go to stdout and nothing else does."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.errors import RegardError, SpecError

if TYPE_CHECKING:
    from rich.tree import Tree

    from regard.decode.search import Search
    from regard.outline import Node, Outline
    from regard.training import Fitted

app = typer.Typer(
    name="regard",
    help="Sequence models that you can train, compare, look inside and ship.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def main() -> None:
    """Sequence models from the first RNN to today's Transformers: train, compare, look inside, ship."""


@app.command()
def show(
    name: Annotated[str | None, typer.Argument(help="A preset, such as gpt2. None: list them all.")] = None,
    settings: Annotated[list[str] | None, typer.Argument(help="Changes to it: depth=4 width=128")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print a model's tree, with shapes, parameters, and state bytes per generated token. Nothing is built."""
    if name is None:
        return presets(as_json)
    from regard.config import assignments
    from regard.models import preset
    from regard.outline import outline

    drawn = outline(preset(name, **assignments(settings or [])), name)
    if as_json:
        print(json.dumps(drawn.as_json()))
        return
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 1000  # a file or a pipe has no edge to fold at
    console.print(_tree(drawn.tree))
    for line in _costs(drawn):
        console.print(line)


CONFIG = Annotated[Path, typer.Argument(help="A run file (YAML), such as those in recipes/.")]
CHANGES = Annotated[list[str] | None, typer.Argument(help="Changes to it: train.minutes=30 out=runs/one")]
RUN = Annotated[str, typer.Argument(help="A run's folder; RUN@best, RUN@latest, RUN@step-2000 for one checkpoint.")]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


@app.command()
def train(
    config: CONFIG,
    settings: CHANGES = None,
    as_json: JSON = False,
) -> None:
    """Train as a run file says. Progress goes to standard error, the result to standard output."""
    from regard.config import read
    from regard.machine import keep_memory
    from regard.training import train as begin

    keep_memory()
    finished(begin(read(config).changed(settings or [])), as_json)


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    settings: Annotated[list[str] | None, typer.Argument(help="Changes from here on: train.minutes=60")] = None,
    as_json: JSON = False,
) -> None:
    """Go on with a run from its newest whole checkpoint, as if it had never stopped."""
    from regard.machine import keep_memory
    from regard.training import resume as go_on

    keep_memory()
    finished(go_on(run, settings or []), as_json)


def finished(run: Fitted, as_json: bool) -> None:
    """What a training that came to its end has to say."""
    moment, measures = run.report.moment, dict(run.report.measures or {})
    facts = {"run": str(run.folder), "reason": run.report.reason, "steps": moment.step, "tokens": moment.tokens}
    facts |= {"seconds": round(moment.seconds, 1), **measures}
    if as_json:
        print(json.dumps(facts))
    else:
        print("  ".join(f"{name} {shown(value)}" for name, value in facts.items() if not isinstance(value, dict)))
    hint(f"{uses(run.folder)}, regard eval {run.folder}, or regard plot {run.folder}")


def uses(run: Path) -> str:
    """What one types to use a run."""
    from regard.run import Run

    ways = {
        "language": f'regard generate {run} --prompt "…"',
        "masking": f'regard fill {run} "… [MASK] …"',
        "classification": f"regard classify {run} FILE",
        "tagging": f"regard tag {run} FILE",
        "embedding": f"regard search FILE QUERY --model {run}",
        "regression": f"regard eval {run}",
    }
    return ways.get(Run.open(run).spec.task.kind, f"regard translate {run} < FILE")


def shown(value: object) -> str:
    """A number as people read it."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@app.command(name="eval")
def evaluate(
    run: RUN,
    data: Annotated[
        list[str] | None,
        typer.Option(help="test.tsv, .jsonl or .po; or --data test.en --data test.fr. None: the run's."),
    ] = None,
    beam: Annotated[int, typer.Option(help="Hypotheses a sentence.")] = 5,
    also: Annotated[list[str] | None, typer.Option("--with", help="Another run, to make an ensemble.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="Of the search: alpha=0.8")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the translations here.")] = None,
    page: Annotated[Path | None, typer.Option("--record", help="Put a row into this Markdown page of results.")] = None,
    as_json: JSON = False,
) -> None:
    """Measure a run by what it learned, on a test set: BLEU, perplexity, accuracy, F1, with their intervals."""
    from regard.evaluate import evaluated, recorded
    from regard.machine import keep_memory

    keep_memory()
    nouns, files, how = [run, *(also or [])], data or [], search_settings(beam, 1, settings)
    found = evaluated(nouns, files, how, out)
    if page is not None:
        recorded(page, nouns, files, how, found)
    if as_json:
        print(json.dumps(found))
        return
    signatures = found.pop("signatures", {})
    for name, value in found.items():
        if not isinstance(value, dict) and not name.endswith(("_low", "_high")):
            between = (
                f"({shown(found[f'{name}_low'])} to {shown(found[f'{name}_high'])})" if f"{name}_low" in found else ""
            )
            print(f"{name:15} {shown(value)}  {between}{signatures.get(name, '')}".rstrip())
    if "labels" in found:
        from regard.tasks.measures import tables

        print("\n".join(["", *tables(found)]))
    for size, share in found.get("by_size", {}).items():
        print(f"size {size:>9}  {share:.1%}")


@app.command()
def translate(
    run: RUN,
    files: Annotated[list[Path] | None, typer.Argument(help="Texts, one a line. None: standard input.")] = None,
    beam: Annotated[int, typer.Option(help="Hypotheses a sentence; 1 is greedy.")] = 5,
    nbest: Annotated[int, typer.Option(help="So many translations of each line.")] = 1,
    also: Annotated[list[str] | None, typer.Option("--with", help="Another run, to make an ensemble.")] = None,
    prefix: Annotated[str, typer.Option(help="How every translation begins.")] = "",
    require: Annotated[list[str] | None, typer.Option(help="A word that must appear.")] = None,
    ban: Annotated[list[str] | None, typer.Option(help="A word that must not.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Of the search: sample=true top_p=0.9 alpha=0.8 seed=7 …")
    ] = None,
    attention: Annotated[bool, typer.Option(help="Draw what each word looked at; in JSON, the weights.")] = False,
    as_json: JSON = False,
) -> None:
    """Translate lines, in their order; an empty line stays empty."""
    from regard.decode.pipeline import Wishes
    from regard.machine import keep_memory
    from regard.translate import Style, translate_lines

    keep_memory()
    wishes = Wishes(prefix, require or [], ban or [])
    how = search_settings(beam, nbest, settings)
    translate_lines([run, *(also or [])], files or [], how, wishes, Style(as_json, attention))


def search_settings(beam: int, nbest: int, settings: list[str] | None) -> Search:
    """The search that options and settings describe."""
    from regard.config import assignments
    from regard.decode.search import Search

    return Search.parse({"beam": max(beam, nbest), "best": nbest} | assignments(settings or []))


@app.command()
def generate(
    run: RUN,
    prompt: Annotated[str, typer.Option(help="What the text begins with; - reads standard input.")] = "",
    tokens: Annotated[int, typer.Option(help="At most so many new ones.", min=1)] = 200,
    samples: Annotated[int, typer.Option(help="So many continuations.", min=1)] = 1,
    temperature: Annotated[float, typer.Option(help="Below 1 safer, above 1 wilder; 0 takes the likeliest.")] = 0.8,
    top_p: Annotated[float, typer.Option(help="Only the likeliest tokens that reach this probability.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed writes the same text.")] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="End before this string.")] = None,
    slide: Annotated[bool, typer.Option("--slide", help="Forget the first half when the context is full.")] = False,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Each token with its probability.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Speed, and the bytes of the state.")] = False,
    settings: Annotated[list[str] | None, typer.Option("--set", help="Of the search: top_k=40 no_repeat=3 …")] = None,
    as_json: JSON = False,
) -> None:
    """Write on from a prompt; text appears as it is made."""
    from regard.config import assignments
    from regard.decode.search import Search
    from regard.generate import Style
    from regard.generate import generate as write
    from regard.machine import keep_memory

    keep_memory()
    chosen = {"sample": temperature > 0, "temperature": temperature or 1.0, "top_p": top_p, "seed": seed}
    how = Search.parse(chosen | {"maximum": tokens} | assignments(settings or []))
    text = sys.stdin.buffer.read().decode(errors="surrogateescape") if prompt == "-" else prompt
    write(run, text, how, stop or [], samples, slide, Style(as_json, probabilities, verbose))


@app.command()
def fill(
    run: RUN,
    texts: Annotated[list[str], typer.Argument(help='Texts with one or more [MASK]: "the [MASK] cat".')],
    best: Annotated[int, typer.Option(help="So many guesses for each.", min=1)] = 5,
    as_json: JSON = False,
) -> None:
    """Guess the hidden words of texts."""
    from regard.answer import fill as guess

    guess(run, texts, best, as_json)


@app.command()
def classify(
    run: RUN,
    files: Annotated[list[Path] | None, typer.Argument(help="Texts, one a line. None: standard input.")] = None,
    as_json: JSON = False,
) -> None:
    """Label each line; a tab divides the two texts of a pair."""
    from regard.answer import classify as label

    label(run, files or [], as_json)


@app.command()
def tag(
    run: RUN,
    files: Annotated[list[Path] | None, typer.Argument(help="Texts, one a line. None: standard input.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Words are divided by spaces already.")] = False,
    as_json: JSON = False,
) -> None:
    """Label each word of each line."""
    from regard.answer import tag as label

    label(run, files or [], words, as_json)


@app.command()
def plan(
    config: CONFIG,
    settings: CHANGES = None,
    as_json: JSON = False,
) -> None:
    """Parameters, memory, tokens a second measured here, and how long a run will take. Nothing is trained or kept."""
    from regard.config import read
    from regard.machine import keep_memory
    from regard.plan import plan as measure
    from regard.train.screen import clock

    keep_memory()
    found = measure(read(config).changed(settings or []))
    if as_json:
        print(json.dumps(vars(found)))
        return
    print(f"model        {found.model}, {found.parameters:,} parameters")
    print(f"state        {found.state_bytes_per_token:,} bytes a generated token")
    print(f"memory       {found.peak_memory / 2**20:,.0f} MB at most, on {found.device}")
    print(f"speed        {found.tokens_per_second:,.0f} target tokens/s, {found.steps_per_second:.2f} steps/s")
    print(f"time         {clock(found.seconds)}")
    hint(" ".join(["regard train", str(config), *(settings or [])]))


@app.command()
def plot(
    runs: Annotated[list[Path], typer.Argument(help="Runs to draw, one color each.")],
    out: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("curves.png"),
) -> None:
    """Draw the curves of one or several runs to a PNG."""
    from regard.lens.chart import curves
    from regard.train.listener import history

    curves({run.name: history(run / "metrics.jsonl") for run in runs}, out)
    print(out)


@app.command()
def verify(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    steps: Annotated[int, typer.Option(help="How many steps to train, twice.", min=2)] = 20,
    as_json: JSON = False,
) -> None:
    """Prove that a run resumes to the bit: train it twice, once with a break, and compare every digest."""
    from regard.machine import keep_memory
    from regard.verify import verify as prove

    keep_memory()
    proof = prove(run, steps)
    if as_json:
        print(json.dumps({**vars(proof), "exact": proof.exact}))
    else:
        for name, digest in proof.straight.items():
            same = "equal" if proof.resumed.get(name) == digest else f"DIFFERENT: {proof.resumed.get(name)}"
            print(f"{name:12} {digest[:16]}  {same}")
    if not proof.exact:
        raise RegardError(
            f"{run}: {steps} steps with a break aren't the same as without", "device=cpu, and one machine"
        )
    hint(f"regard resume {run}")


@app.command()
def average(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    last: Annotated[int, typer.Option(help="Of the last so many checkpoints.", min=0)] = 0,
    best: Annotated[int, typer.Option(help="Of the best so many.", min=0)] = 0,
    as_json: JSON = False,
) -> None:
    """Average the weights of several checkpoints; from then on RUN means the average, and RUN@best the best."""
    from regard.average import average as write_average

    if bool(last) == bool(best):
        raise SpecError("the last checkpoints or the best?", f"regard average {run} --last 5")
    written, steps = write_average(run, last, best)
    if as_json:
        print(json.dumps({"path": str(written.path), "steps": steps}))
    else:
        print(f"{written.path}  from steps {', '.join(f'{step:,}' for step in steps)}")
    hint(f"regard eval {run}@average")


@app.command()
def embed(
    run: Annotated[str, typer.Argument(help="A run that learned to embed, or a folder with an encoder: MiniLM.")],
    files: Annotated[list[Path] | None, typer.Argument(help="Texts, one a line. None: standard input.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the vectors here, as a NumPy array (.npy).")] = None,
    index: Annotated[Path | None, typer.Option(help="Write an index for regard search to this new folder.")] = None,
    as_json: JSON = False,
) -> None:
    """Turn each line into a vector of unit length: the mean of the model's states."""
    from regard.index import embedder
    from regard.index import index as write_index
    from regard.translate import texts

    lines = list(texts(files or []))
    if index is not None:
        written = [str(path) for path in write_index(run, lines, index)]
        print(json.dumps({"files": written}) if as_json else "\n".join(written))
        return hint(f"regard search {index} QUERY")
    vectors = embedder(run).embed(lines)
    if out is not None:
        import numpy

        numpy.save(out, vectors.numpy(), allow_pickle=False)
        print(json.dumps({"out": str(out), "shape": list(vectors.shape)}) if as_json else out)
        return
    for text, vector in zip(lines, vectors.tolist(), strict=True):
        print(json.dumps({"text": text, "vector": vector}) if as_json else " ".join(f"{x:.6f}" for x in vector))


@app.command()
def search(
    corpus: Annotated[Path, typer.Argument(help="An index that regard embed wrote, or a file of lines.")],
    query: Annotated[str, typer.Argument(help="What to look for.")],
    model: Annotated[str | None, typer.Option(help="What makes the vectors; an index knows its own.")] = None,
    best: Annotated[int, typer.Option(help="So many lines.", min=1)] = 5,
    as_json: JSON = False,
) -> None:
    """Find the lines of a corpus that are nearest in meaning."""
    from regard.index import search as look

    for hit in look(corpus, query, model, best):
        print(json.dumps(vars(hit), ensure_ascii=False) if as_json else f"{hit.cosine:.3f}  {hit.line}: {hit.text}")


@app.command(name="import")
def bring(
    folder: Annotated[
        str, typer.Argument(help="A folder with config.json and safetensors; hf:owner/name downloads one first.")
    ],
    out: Annotated[Path | None, typer.Option(help="Keep it as a run there.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Compare its outputs with what transformers gives.")] = False,
    as_json: JSON = False,
) -> None:
    """Read a checkpoint in Hugging Face layout: every name, shape and number, without running anything in it."""
    from regard.exchange import bring as read_folder

    found = read_folder(folder, out, check)
    if as_json:
        print(json.dumps(vars(found)))
        return
    print(f"model        {found.type}, {found.parameters:,} parameters, {found.dtype}")
    if found.unused:
        print(f"unused       {', '.join(found.unused)}")
    if found.largest_difference is not None:
        print(f"difference   {found.largest_difference:.2g} at most, from transformers on random tokens with pads")
    if found.run is not None:
        print(f"run          {found.run}")
    hint(f"regard import {found.folder} --check" if not check else f"regard show {found.family}")


@app.command()
def export(
    run: RUN,
    folder: Annotated[Path, typer.Argument(help="Where it goes: a new folder; for onnx a new file.")],
    to: Annotated[
        Literal["hf", "ctranslate2", "onnx"],
        typer.Option(help="hf: for transformers and its kin; onnx: encoders and classifiers."),
    ] = "hf",
    as_json: JSON = False,
) -> None:
    """Write a model for others: in Hugging Face layout with tokenizer and settings, for CTranslate2, as ONNX."""
    from regard.exchange import send

    written = [str(path) for path in send(run, to, folder)]
    print(json.dumps({"to": to, "files": written}) if as_json else "\n".join(written))
    if to == "hf":
        hint(f"regard import {folder} --check")


@app.command()
def doctor(as_json: JSON = False) -> None:
    """Look at this machine: versions, speed, memory, what is missing and what to do about it."""
    from regard.doctor import examine

    found = examine()
    if as_json:
        print(json.dumps(vars(found)))
        return
    print(f"system       {found.system}")
    print("versions     " + "  ".join(f"{name} {number}" for name, number in found.versions.items()))
    print(f"compute      {found.cores} cores, {found.threads} threads, {', '.join(found.devices)}")
    print(f"speed        {found.fp32_gflops:,.0f} GFLOP/s in fp32, {found.bf16_gflops:,.1f} in bf16")
    print(f"memory       {found.memory / 2**30:,.1f} GB;  {found.disk_free / 2**30:,.1f} GB free on this disk")
    print("extras       " + "  ".join(f"{name} {'yes' if there else 'no'}" for name, there in found.extras.items()))
    for line in found.advice:
        print(f"advice       {line}")
    hint("regard demo")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the runs and the pictures go.")] = Path("runs/demo"),
    tokens: Annotated[int, typer.Option(help="That each of the three models learns from.", min=1000)] = 800_000,
    as_json: JSON = False,
) -> None:
    """Walk the path: a bottleneck, then attention, then a Transformer, trained here and now on English and French."""
    from regard.machine import keep_memory
    from regard.stage import perform

    keep_memory()
    perform(out, tokens, as_json)
    hint(f'echo "The old woman sees the red house." | regard translate {out}/transformer --attention')


def presets(as_json: bool) -> None:
    """Every preset by family."""
    from regard.models import families

    table = {name: list(family.presets) for name, family in families().items()}
    if as_json:
        print(json.dumps(table))
        return
    for family, names in table.items():
        print(f"{family:12} {'  '.join(names)}")
    hint("regard show transformer-tiny")


def hint(command: str) -> None:
    """What to type next: for people, so not among the results."""
    sys.stdout.flush()
    print(f"\nnext: {command}", file=sys.stderr)


def _tree(node: Node) -> Tree:
    from rich.tree import Tree

    tree = Tree(_label(node), guide_style="dim")
    for child in [] if _plain(node) else node.children:
        tree.add(_tree(child))
    return tree


def _plain(node: Node) -> bool:
    """Whether it is one matrix or vector, with a bias perhaps: one line says it."""
    return bool(node.children) and {child.name for child in node.children} <= {"weight", "bias"}


def _label(node: Node) -> str:
    from rich.markup import escape

    words = [f"[bold]{escape(node.name)}[/bold]"]
    for leaf in node.children if _plain(node) else [node]:
        if leaf.shape is not None:
            words.append(f"{'+ bias ' if leaf.name == 'bias' else ''}{' × '.join(f'{size:,}' for size in leaf.shape)}")
    if node.note:
        words.append(f"[cyan]{escape(node.note)}[/cyan]")
    count = f"{node.parameters:,}"
    if node.repeat > 1:
        count = f"{node.repeat} × {node.parameters // node.repeat:,} = {count}"
    if node.parameters:
        words.append(f"[green]{count}[/green]")
    return "  ".join(words)


def _costs(drawn: Outline) -> list[str]:
    lines = [f"parameters        {drawn.parameters:>16,}"]
    if drawn.tree.children and any(child.name == "decoder" for child in drawn.tree.children):
        lines.append(f"state             {drawn.state_bytes_per_token:>16,} bytes a generated token")
        if drawn.state_bytes_per_source_token:
            lines.append(f"                  {drawn.state_bytes_per_source_token:>16,} bytes a source token")
        lines.append(f"                  {drawn.state_bytes_fixed:>16,} bytes whatever the length (one row, fp32)")
    else:
        lines.append("state             none: an encoder reads all at once")
    return lines


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
