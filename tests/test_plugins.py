"""Plug-ins: what a user adds from outside is as good as what is inside, and nothing is run that they didn't name."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
import yaml

import regard as public
from regard.core.mixer import MixerSpec
from regard.core.plugins import LOADED, use
from regard.core.registry import Kinds
from regard.core.spec import Spec
from regard.errors import PluginError, RegardError, SpecError
from regard.laws import LAWS, Law, Subject
from regard.laws.variant import label, vary
from regard.models import FAMILIES, families
from regard.runs.convert import send  # noqa: F401  enters every role
from tests.cli.test_cli import Done, regard

EXAMPLE = Path(__file__).parent.parent / "examples" / "regard-ema" / "regard_ema.py"
families()


def roles(kind: type[Spec] = Spec) -> Iterator[Kinds[type[Spec]]]:
    if "kinds" in vars(kind):
        yield kind.kinds
    for below in kind.__subclasses__():
        yield from roles(below)


@contextmanager
def another_process() -> Iterator[None]:
    """What is loaded inside is gone afterwards, and nothing is loaded at first."""
    tables: list[MutableMapping[Any, Any]] = [*roles(), FAMILIES, LOADED.plugins, LOADED.broken]
    kept, scanned = [dict(table) for table in tables], LOADED.scanned
    LOADED.plugins.clear()
    LOADED.broken.clear()
    LOADED.scanned = False
    try:
        yield
    finally:
        for table, before in zip(tables, kept, strict=True):
            for name in [name for name in table if name not in before]:
                del table[name]
            table.update(before)
        for name in [name for name in sys.modules if name.startswith("regard_")]:
            del sys.modules[name]
        LOADED.scanned = scanned


@pytest.fixture(autouse=True)
def apart() -> Iterator[None]:
    with another_process():
        yield


def run(*words: str | Path) -> Done:
    """The program, in a process of its own as far as plug-ins go."""
    with another_process():
        return regard(*map(str, words))


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


DATES: dict[str, Any] = {
    "uses": ["plugins/regard_ema.py"],
    "task": {"kind": "translation", "metrics": ["cer"]},
    "corpus": {"kind": "dates", "train": 60, "validation": 4, "test": 4},
    "tokenizer": {"pieces": "character"},
    "batches": {"tokens": 200},
    "model": {"kind": "ema-tiny", "width": 16, "depth": 1},
    "train": {"steps": 4, "evaluate": 2, "save": 2},
    "device": "cpu",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a plug-in of which the run file, in another folder than this one, says where it is."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "plugins").mkdir()
    shutil.copy(EXAMPLE, folder / "plugins")
    (folder / "dates.yaml").write_text(yaml.safe_dump(DATES | {"out": str(folder / "run")}))
    done = run("train", folder / "dates.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cer"] > 0
    there = quote(f"{folder}/plugins/regard_ema.py")
    assert f"next: regard --uses {there} translate {quote(f'{folder}/run')}" in done.stderr
    return folder / "run"


def copy(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


def test_a_run_keeps_the_names_and_digests_of_its_plugins(trained: Path) -> None:
    wanted = {"regard_ema.py": digest(EXAMPLE)}
    assert yaml.safe_load((trained / "run.yaml").read_text())["uses"] == ["plugins/regard_ema.py"]
    assert json.loads((trained / "run.json").read_text())["plugins"] == wanted
    assert json.loads((trained / "checkpoints/step-4/state.json").read_text())["plugins"] == wanted


def test_a_run_goes_on_with_the_plugin_that_the_user_names(trained: Path, tmp_path: Path) -> None:
    again = copy(trained, tmp_path / "moved")
    done = run("--uses", EXAMPLE, "resume", again, "train.steps=6", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == 6
    done = run("--uses", EXAMPLE, "verify", again, "--steps", "2")
    assert done.returncode == 0, done.stderr
    done = run("--uses", EXAMPLE, "eval", again, "--metric", "ter", "--json")
    assert done.returncode == 0, done.stderr
    assert {"cer", "ter", "bleu"} <= json.loads(done.stdout).keys()


VERBS: dict[str, list[str]] = {
    "resume": ["RUN", "train.steps=6"],
    "verify": ["RUN", "--steps", "2"],
    "average": ["RUN", "--last", "2"],
    "eval": ["RUN"],
    "translate": ["RUN@latest", "--file", "TEXT"],
    "export": ["RUN", "OUT"],
    "train": ["RUN/run.yaml", "out=OUT"],
    "plan": ["RUN/run.yaml", "out=OUT"],
}


@pytest.mark.parametrize("verb", VERBS)
def test_no_run_loads_a_plugin_by_itself(trained: Path, tmp_path: Path, verb: str) -> None:
    """Whatever lies in its folder, under whatever name its files mention, isn't run."""
    again, ran = copy(trained, tmp_path / "downloaded"), tmp_path / "ran"
    (tmp_path / "text").write_text("1 May 2000\n")
    for place in (again, again / "plugins", again / "checkpoints/plugins"):
        place.mkdir(exist_ok=True)
        (place / "regard_ema.py").write_text(f"open({str(ran)!r}, 'w')\n")
    places = {"RUN": str(again), "TEXT": str(tmp_path / "text"), "OUT": str(tmp_path / "out")}
    words = [re.sub("RUN|TEXT|OUT", lambda found: places[found[0]], word) for word in VERBS[verb]]
    done = run(verb, *words)
    assert not ran.exists()
    assert done.returncode == 4
    assert "made with plug-ins that aren't loaded" in done.stderr
    assert "regard --uses regard_ema.py VERB RUN" in done.stderr
    if verb not in ("train", "plan"):
        assert f"regard_ema.py (SHA-256 {digest(EXAMPLE)})" in done.stderr


def test_python_loads_what_it_names(trained: Path) -> None:
    with pytest.raises(RegardError, match=r"regard.use\('regard_ema.py'\)"):
        public.load(str(trained))
    public.use(EXAMPLE)
    assert public.load(str(trained)).translate("1 May 2000") is not None


def test_another_plugin_of_the_name_is_refused_with_both_digests(trained: Path, tmp_path: Path) -> None:
    other = tmp_path / "regard_ema.py"
    other.write_text(EXAMPLE.read_text() + "# changed\n")
    for words in (["resume", str(trained), "train.steps=6"], ["eval", str(trained)]):
        done = run("--uses", other, *words)
        assert done.returncode == 4
        assert digest(other) in done.stderr and digest(EXAMPLE) in done.stderr
    use(EXAMPLE)
    assert use(EXAMPLE).digest == digest(EXAMPLE)
    with pytest.raises(PluginError, match=f"(?s){digest(EXAMPLE)}.*{digest(other)}"):
        use(other)


def test_uses_cannot_be_changed_when_a_run_goes_on(trained: Path) -> None:
    done = run("--uses", EXAMPLE, "resume", trained, "uses=[other.py]")
    assert done.returncode == 2
    assert "uses: ('plugins/regard_ema.py',) -> ('other.py',)" in done.stderr


@pytest.mark.parametrize("plugins", ["x", [1], {"a": 1}, {"a": {}}], ids=str)
def test_a_damaged_list_of_plugins_is_refused(trained: Path, tmp_path: Path, plugins: Any) -> None:
    again = copy(trained, tmp_path / "run")
    for path in again.glob("checkpoints/step-*"):
        state = json.loads((path / "state.json").read_text()) | {"plugins": plugins}
        (path / "state.json").write_text(json.dumps(state))
        manifest = json.loads((path / "MANIFEST.json").read_text())
        content = (path / "state.json").read_bytes()
        manifest["files"]["state.json"] = [len(content), sha256(content).hexdigest()]
        (path / "MANIFEST.json").write_text(json.dumps(manifest))
    done = run("--uses", EXAMPLE, "translate", again, "none")
    assert done.returncode == 4, done.stderr
    assert "the plug-ins that it was made with can't be read" in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("none.py", None, "none.py: No such file"),
        ("broken.py", "x = 1\n1 / 0\n", "broken.py:2: it can't be imported: ZeroDivisionError"),
        ("leaving.py", "raise SystemExit(3)", "leaving.py:1: it can't be imported: SystemExit: 3"),
        ("wrong.py", "def\n", "wrong.py: it can't be imported: SyntaxError"),
        ("no_such_module_here", None, "no_such_module_here: there is no such module here"),
        ("../x", None, "'../x' isn't a plug-in"),
        ("sys", None, "sys: it has no file"),
        (
            "taken.py",
            "from typing import Literal\nfrom regard.core.mixer import MixerSpec\n"
            "class Own(MixerSpec):\n    kind: Literal['attention'] = 'attention'\n",
            "kind 'attention' is taken by regard.mixers.attention.Attention",
        ),
        (
            "family.py",
            "from typing import Literal\nfrom regard.models import Family, Settings\n"
            "class Own(Settings):\n    kind: Literal['own'] = 'own'\nFamily(Own, None, {'gpt2': {}})\n",
            "preset 'gpt2' is taken by the family gpt2",
        ),
    ],
)
def test_what_cannot_be_loaded_is_told_by_name(tmp_path: Path, name: str, text: str | None, told: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(RegardError, match=re.escape(told)):
        use(name, tmp_path)
    done = run("--uses", tmp_path / name if name.endswith(".py") else name, "show", "gpt2")
    assert done.returncode in (1, 2, 3)
    assert told in done.stderr and "Traceback" not in done.stderr


def test_a_broken_plugin_can_be_mended_and_loaded(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    (tmp_path / "own.py").write_text(text + "\nmistake\n")
    with pytest.raises(PluginError, match="mistake"):
        use(tmp_path / "own.py")
    (tmp_path / "own.py").write_text(text + "\nmistak=1\n")
    assert use(tmp_path / "own.py").name == "own.py"
    assert MixerSpec.parse("ema").build(8) is not None


def installed(folder: Path, name: str, text: str) -> Path:
    """A folder that looks to Python as if a distribution with one module had been installed in it."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(text)
    info = folder / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[regard]\n{name} = {name}\n")
    return folder


PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from regard.cli import run
run()
"""


def test_an_entry_point_needs_no_uses(tmp_path: Path) -> None:
    """In processes of their own, as an installed package is met."""
    place = installed(tmp_path / "site", "regard_ema", EXAMPLE.read_text())
    tree = {key: value for key, value in DATES.items() if key != "uses"} | {"out": str(tmp_path / "run")}
    (tmp_path / "dates.yaml").write_text(yaml.safe_dump(tree))

    def program(*words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", PROGRAM, str(place), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = program("train", tmp_path / "dates.yaml", "train.steps=2")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run/run.json").read_text())["plugins"] == {"regard_ema": digest(EXAMPLE)}
    (place / "regard_ema.py").write_text(EXAMPLE.read_text() + "# a newer version\n")
    done = program("eval", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    assert f"made with regard_ema of SHA-256 {digest(EXAMPLE)}" in done.stderr  # a warning, since it is installed
    refused = run("eval", tmp_path / "run")
    assert refused.returncode == 4
    assert "regard --uses regard_ema VERB RUN" in refused.stderr


def test_installed_plugins_are_listed_and_found_by_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="unknown kind 'ema'"):
        MixerSpec.parse("ema")
    LOADED.scanned = False
    monkeypatch.syspath_prepend(str(installed(tmp_path / "site", "regard_ema", EXAMPLE.read_text())))
    assert MixerSpec.parse({"kind": "ema", "gate": False}).build(8) is not None
    assert json.loads(run("show", "--json").stdout)["ema"] == ["ema-base", "ema-tiny"]
    assert public.preset("ema-tiny", depth=1).decoder is not None


def test_an_installed_plugin_that_is_broken_stops_runs_and_no_listing(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(installed(tmp_path / "site", "regard_bad", "import no_such_thing\n")))
    told = "plug-in regard_bad: regard_bad: it can't be imported: ModuleNotFoundError"
    for words in (["show"], ["show", "gpt2", "depth=1", "width=64"], ["--help"], ["doctor"]):
        done = run(*words)
        assert done.returncode == 0, done.stderr
        assert words[0] == "--help" or len(words) > 1 or told in done.stdout + done.stderr
    for words in (["show", "ema-tiny"], ["--uses", str(EXAMPLE), "eval", str(trained)]):
        done = run(*words)
        assert done.returncode == 1
        assert told in done.stderr and "pip uninstall regard-bad" in done.stderr


def example() -> list[Subject]:
    """The example's mixer, in every variant."""
    with another_process():
        use(EXAMPLE)
        return [Subject.describe(spec, label(spec)) for spec in vary(MixerSpec.parse("ema"))]


SUBJECTS = example()


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_the_examples_mixer_keeps_every_law(law: Law[Any], subject: Subject) -> None:
    assert subject.spec is not None
    MixerSpec.kinds["ema"] = type(subject.spec)
    if law.excuse(subject):
        excuses = "it says that it is causal", "for plain modules", "it looks at no memory", "it sees an order"
        assert law.excuse(subject) in excuses
        return
    found = law.find_breach(subject)
    assert found is None, found.tell()


EVERY_ROLE = """
from pathlib import Path
from typing import ClassVar, Literal

import torch

from regard.core.block import BlockSpec
from regard.core.mixer import Mixer, MixerSpec
from regard.core.model import ModelSpec
from regard.core.stack import StackSpec
from regard.data.corpus import CorpusSpec
from regard.data.reader import ReaderSpec
from regard.decode.filters.filter import FilterSpec
from regard.decode.filters.usual import Filter
from regard.hub.targets.target import TargetSpec
from regard.models import Family, Settings
from regard.parts.embedding import Tokens
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.tasks.metrics.metric import MetricSpec
from regard.tasks.translation import TranslationTask, TranslationTaskSpec
from regard.train.optimizer import OptimizerSpec
from regard.train.schedule import ScheduleSpec


class Nothing(MixerSpec):
    kind: Literal["own-mixer"] = "own-mixer"

    def build(self, width):
        return Channels(width)


class Channels(Mixer):
    alone = True

    def __init__(self, width):
        super().__init__()
        self.inner = torch.nn.Linear(width, width)

    def forward(self, x, view, state=None):
        return self.inner(x)


class Own(Settings):
    kind: Literal["own-family"] = "own-family"
    vocabulary: int = 100


def compose(s):
    block = BlockSpec(mix=Nothing())
    stack = StackSpec(width=8, depth=1, embedding=Tokens(vocabulary=s.vocabulary), blocks=(block,))
    return ModelSpec(decoder=stack, head=Vocabulary(size=s.vocabulary), init=Normal())


Family(Own, compose, {"own-preset": {}})


class OwnTask(TranslationTaskSpec):
    kind: Literal["own-task"] = "own-task"

    def build(self, prepared, batches, seed):
        return Shorter(self, prepared, batches, seed)


class Shorter(TranslationTask):
    goal, rising = "own-metric", False


class OwnCorpus(CorpusSpec):
    gives: ClassVar[tuple[str, ...]] = ("pairs",)
    kind: Literal["own-corpus"] = "own-corpus"
    reader: ReaderSpec

    def splits(self):
        return ("train", "validation")

    def samples(self, form, split, folder, log):
        return self.reader.under(folder).samples(log)


class Arrows(ReaderSpec):
    kind: Literal["own-reader"] = "own-reader"
    path: str | tuple[str, ...]

    def samples(self, log):
        for path in self.path:
            for line in Path(path).read_text().splitlines():
                source, target = line.split(" -> ")
                log.keep()
                yield {"source": source, "target": target}


class Signs(OptimizerSpec):
    kind: Literal["own-optimizer"] = "own-optimizer"

    def make(self, parameters):
        return torch.optim.Rprop(parameters, self.rate)


class Half(ScheduleSpec):
    kind: Literal["own-schedule"] = "own-schedule"

    def after(self, progress, laps):
        return 0.5


class Lengths(MetricSpec):
    rising: ClassVar[bool] = False
    kind: Literal["own-metric"] = "own-metric"

    def measure(self, answers, references):
        return sum(map(len, answers)) / len(answers)


class Shouting(FilterSpec):
    kind: Literal["own-filter"] = "own-filter"
    letter: str = "a"

    def build(self, tokenizer):
        return Rather(tokenizer.engine.token_to_id(self.letter))


class Rather(Filter):
    def __init__(self, token):
        self.token = token

    def __call__(self, scores, context):
        scores = scores.clone()
        scores[:, self.token] += 100
        return scores


class Sizes(TargetSpec):
    kind: Literal["own-target"] = "own-target"

    def write(self, given, noun, place):
        place.write_text(str(given.model.parameter_count()))
        return [place]
"""


def test_every_role_can_be_filled_from_outside(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(EVERY_ROLE)
    (tmp_path / "pairs").write_text("a b -> b a\nc d -> d c\na c -> c a\n" * 20)
    tree = {
        "uses": ["own.py"],
        "task": {"kind": "own-task", "metrics": ["own-metric"], "search": {"filters": ["own-filter"], "max_tokens": 3}},
        "data": str(tmp_path),
        "corpus": {"kind": "own-corpus", "reader": {"kind": "own-reader", "path": "pairs"}},
        "tokenizer": {"pieces": "character"},
        "model": "own-preset",
        "train": {"steps": 3, "evaluate": 1, "save": 1, "optimizer": "own-optimizer", "schedule": "own-schedule"},
        "device": "cpu",
        "out": str(tmp_path / "run"),
    }
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(tree))
    done = run("train", tmp_path / "own.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["own-metric"] >= 0
    plugin = ("--uses", tmp_path / "own.py")
    done = run(*plugin, "resume", tmp_path / "run", "train.steps=4")
    assert done.returncode == 0, done.stderr
    done = run(*plugin, "eval", tmp_path / "run", "--metric", "own-metric", "--json")
    assert done.returncode == 0, done.stderr
    (tmp_path / "text").write_text("a b\n")
    for letter in "ab":
        words = ("--set", f"filters=[{{kind: own-filter, letter: {letter}}}]", "--set", "max_tokens=3")
        done = run(*plugin, "translate", tmp_path / "run", "--file", tmp_path / "text", *words)
        assert done.stdout.strip() == 3 * letter, done.stderr
    done = run(*plugin, "export", tmp_path / "run", tmp_path / "size", "--to", "own-target")
    assert done.returncode == 0, done.stderr
    assert int((tmp_path / "size").read_text()) > 0
    done = run("export", tmp_path / "run", tmp_path / "size", "--to", "own-target")
    assert done.returncode == 2
    assert "--to: unknown kind 'own-target'" in done.stderr


def test_the_files_that_contributors_are_sent_to_are_there() -> None:
    root = EXAMPLE.parent.parent.parent
    page = (root / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| an? (.+?) \| `(.+?)/NAME.py` \| .* \| `(\w+\.py)` \|$", page, re.MULTILINE)
    assert [what for what, _, _ in rows] == [
        "task",
        "corpus",
        "reader",
        "change of pictures",
        "encoder of pictures",
        "filter",
        "metric",
        "reward",
        "experiment",
        "export target",
    ]
    for what, folder, first in rows:
        text = (root / folder / first).read_text()
        assert re.search(r"\(\w*(Spec|Reader|Experiment)\):\n", text), what
        package = folder.replace("/", ".")
        enters = "import_all" in (root / folder / "__init__.py").read_text()
        assert enters or package in {kinds.folder for kinds in roles()}, what
