"""The verbs of training and translating, as a stranger types them."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path
from shlex import quote
from typing import Any
from unittest.mock import patch

import pytest
import torch

from regard.data.corpora.english_french import pairs
from regard.errors import DataError
from regard.runs.folder import Run
from regard.runs.load import read_weights
from regard.runs.resolve import resolve
from tests.cli.test_cli import Done, regard
from tests.train.small import document

WORDS = ["train.steps=6", "train.evaluate=3", "train.save=2", "train.keep=5"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained for six steps."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("verbs")
    file = folder / "run.yaml"
    file.write_text(json.dumps(document(folder / "run").tree))
    done = regard("train", str(file), *WORDS)
    assert done.returncode == 0, done.stderr
    assert "next: regard translate" in done.stderr
    return folder / "run"


def typed(text: str, *words: str) -> Done:
    """A command with something on its standard input."""
    with patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()))):
        return regard(*words)


def told(done: Done) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_run_holds_everything_that_it_was_made_with(run: Path) -> None:
    facts = json.loads((run / "run.json").read_text())
    assert facts["versions"]["torch"] == torch.__version__
    assert facts["data"] == Run.open(run).prepared().digest
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["event"] == "step"] == list(range(1, 7))
    assert [line["step"] for line in lines if line["event"] == "evaluation"] == [3, 6]
    newest = resolve(f"{run}@latest")
    assert newest.json("state")["config"] == facts["config"]
    assert {"spec.json", "state.json", "tokenizer.json"} <= {path.name for path in newest.path.iterdir()}


def test_a_finished_run_says_so_and_a_longer_one_goes_on(run: Path) -> None:
    assert told(regard("resume", str(run), "--json"))[0]["steps"] == 6
    again = regard("train", str(run / "run.yaml"))
    assert again.returncode == 1
    assert f"regard resume {quote(str(run))}" in again.stderr


def test_lines_come_back_in_order_and_an_empty_one_stays_empty(run: Path) -> None:
    done = typed("I like the green cat.\n\nShe sleeps.\n", "translate", str(run))
    lines = done.stdout.split("\n")
    assert done.returncode == 0
    assert len(lines) == 4 and lines[1] == "" and lines[3] == ""
    alone = typed("She sleeps.\n", "translate", str(run))
    assert alone.stdout.strip() == lines[2].strip()


def test_translations_as_json_have_tokens_scores_and_attention(run: Path) -> None:
    lines = told(typed("I like the green cat.\nShe sleeps.\n", "translate", str(run), "--json", "--attention"))
    for line, source in zip(lines, ("I like the green cat.", "She sleeps."), strict=True):
        assert line["source"] == source
        assert len(line["tokens"]) == len(line["log_probabilities"]) == len(line["attention"])
        assert all(sum(row) == pytest.approx(1) for row in line["attention"])
    best = told(typed("She sleeps.\n", "translate", str(run), "--json", "--nbest", "3"))[0]
    assert len({item["text"] for item in best["nbest"]}) > 1
    scores = [item["score"] for item in best["nbest"]]
    assert scores == sorted(scores, reverse=True)


def test_files_and_wishes(run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("She sleeps.\nI like the cat.\n")
    done = regard("translate", str(run), "--file", str(tmp_path / "in.txt"), "--prefix", "Le chat")
    assert all(line.startswith("Le chat") for line in done.stdout.splitlines())
    sampled = ["--set", "sample=true", "--set", "seed=3", "--beam", "1"]
    draws = [regard("translate", str(run), "--file", str(tmp_path / "in.txt"), *sampled).stdout for _ in range(2)]
    assert draws[0] == draws[1]
    ensemble = regard("translate", str(run), "--file", str(tmp_path / "in.txt"), "--with", f"{run}@latest")
    assert ensemble.returncode == 0


def test_attention_is_drawn(run: Path) -> None:
    done = typed("She sleeps.\n", "translate", str(run), "--attention")
    assert "sleeps" in done.stdout and "weight in %" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_model_without_attention_says_that_it_sees_one_vector(tmp_path: Path) -> None:
    tree = document(tmp_path / "run", "train.steps=2", "train.evaluate=0", model="gru").tree
    (tmp_path / "run.yaml").write_text(json.dumps(tree))
    assert regard("train", str(tmp_path / "run.yaml")).returncode == 0
    plain = typed("She sleeps.\n", "translate", str(tmp_path / "run"))
    done = typed("She sleeps.\n", "translate", str(tmp_path / "run"), "--attention")
    assert done.returncode == 0
    assert done.stdout == plain.stdout
    assert done.stderr.count("sees its source as one vector") == 1
    (line,) = told(typed("She sleeps.\n", "translate", str(tmp_path / "run"), "--attention", "--json"))
    assert "attention" not in line


def test_what_a_limit_cut_and_which_words_are_missing_is_told(run: Path) -> None:
    """On standard error with the lines, and in the JSON of each."""
    lines = "She sleeps.\n\nI like the green cat.\n"
    words = ["--set", "max_tokens=1", "--set", "min_tokens=1", "--json"]
    done = typed(lines, "translate", str(run), *words)
    assert "2 texts (line 1, line 3): cut by a limit; --set max_tokens=N" in done.stderr
    assert [line.get("cut") for line in told(done)] == ["maximum", None, "maximum"]
    owed = typed(lines, "translate", str(run), *words, "--require", "la maison verte")
    assert "2 texts (line 1, line 3): a required word is missing" in owed.stderr
    assert [line.get("met") for line in told(owed)] == [False, None, False]
    assert "cut by a limit" in regard("eval", str(run), "--set", "max_tokens=1", "--set", "min_tokens=1").stderr


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        (["--beam", "0"], "--beam 0"),
        (["--nbest", "0"], "--nbest 0"),
        (["--beam", "2", "--nbest", "3"], "--beam 3"),
        (["--set", "num_beams=4"], "num_beams: unknown setting; did you mean beam=4?"),
        (["--set", "groups=5", "--require", "maison"], "groups"),
        (["--set", "sample=true", "--require", "maison"], "sample"),
        (
            ["--set", "no_repeat=1", "--set", "min_tokens=5000"],
            "no_repeat=1 and that special tokens aren't text",
        ),
    ],
    ids=" ".join,
)
def test_what_a_search_cannot_do_is_refused(run: Path, words: list[str], piece: str) -> None:
    done = typed("She sleeps.\n", "translate", str(run), *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert piece in done.stderr


def test_a_run_that_goes_on_answers_others_words_too(run: Path) -> None:
    done = regard("resume", str(run), "lr=0.1")
    assert done.returncode == 2
    assert "lr: unknown setting; did you mean train.optimizer.rate=0.1?" in done.stderr


def test_more_translations_than_the_usual_beam_widen_it(run: Path) -> None:
    assert len(told(typed("She sleeps.\n", "translate", str(run), "--nbest", "7", "--json"))[0]["nbest"]) == 7


@pytest.mark.parametrize("option", ["--out", "--record"])
def test_a_place_that_cannot_be_written_is_refused_before_the_evaluation(
    run: Path, option: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    done = regard("eval", "no such run", option, str(tmp_path / "file" / "out.txt"))  # nothing was opened yet
    assert done.returncode == DataError.status
    assert "is a file, not a folder" in done.stderr
    assert done.stdout == ""
    assert (tmp_path / "file").read_text() == "mine"
    assert regard("eval", str(run), option, str(tmp_path / "new" / "deeper" / "out.txt")).returncode == 0
    assert (tmp_path / "new" / "deeper" / "out.txt").is_file()


def test_measures_are_told_even_if_they_cannot_be_recorded(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    assert regard("eval", str(run), "--record", str(page)).returncode == 0
    page.write_text(page.read_text().replace("| model |", "| another |"))
    done = regard("eval", str(run), "--record", str(page), "--json")
    assert done.returncode == DataError.status
    assert "bleu" in json.loads(done.stdout)


@pytest.mark.parametrize("journal", ["", '{"event": "step", "ste', '{"event": "step", "step": 6}\n'])
def test_a_journal_without_steps_is_found_out_before_the_evaluation(run: Path, tmp_path: Path, journal: str) -> None:
    copy, page = tmp_path / "run", tmp_path / "results.md"
    shutil.copytree(run, copy)
    (copy / "metrics.jsonl").write_text(journal)
    done = regard("eval", str(copy), "--record", str(page))
    assert done.returncode == DataError.status
    assert "metrics.jsonl: it tells of no step" in done.stderr
    assert "leave --record out" in done.stderr
    assert done.stdout == ""
    assert not page.exists()


def test_eval_records_what_it_measured_on_a_page(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    (measured,) = told(regard("eval", str(run), "--beam", "2", "--record", str(page), "--json"))
    row = page.read_text().splitlines()[-2]
    assert "## Translation: " in page.read_text()
    assert f"| {measured['bleu']:.1f} | {measured['chrf']:.1f} |" in row
    assert "6 steps" in row
    assert "beam 2" in row
    other = tmp_path / "others.md"
    (measured,) = told(regard("eval", str(run), "--metric", "rouge-l", "--record", str(other), "--json"))
    assert "| exact | rouge-l | search |" in other.read_text()
    assert f"% | {measured['rouge-l']:.1f} | beam" in other.read_text()


def test_a_damaged_newest_checkpoint_is_named_when_an_older_one_is_used(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    path = copy / "checkpoints" / "step-6" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    done = typed("the cat\n", "translate", f"{copy}@latest")
    assert done.returncode == 0, done.stderr
    assert "step-6" in done.stderr
    assert "an older one is used" in done.stderr


def test_eval_prints_measures_with_their_signatures(run: Path, tmp_path: Path) -> None:
    done = regard("eval", str(run), "--beam", "2")
    assert done.returncode == 0
    assert "nrefs:1|case:mixed" in done.stdout
    (tmp_path / "test.tsv").write_text("She sleeps.\tElle dort.\nHe sleeps.\tIl dort.\n")
    out = tmp_path / "out.txt"
    measures = told(regard("eval", str(run), "--data", str(tmp_path / "test.tsv"), "--out", str(out), "--json"))[0]
    assert measures["sentences"] == 2
    assert {"bleu", "chrf", "exact", "loss", "perplexity", "signatures"} <= set(measures)
    assert len(out.read_text().splitlines()) == 2
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{n} cats.</seg></tuv><tuv xml:lang="fr"><seg>{n} chats.</seg></tuv></tu>'
        for n in range(3)
    )
    (tmp_path / "test.tmx").write_text(f'<tmx><header srclang="en"/><body>{units}</body></tmx>')
    measures = told(regard("eval", str(run), "--data", str(tmp_path / "test.tmx"), "--json"))[0]
    assert measures["sentences"] == 3


def test_plan_measures_and_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(json.dumps(document(tmp_path / "run").tree))
    plan = told(regard("plan", str(file), "train.steps=1000", "--json"))[0]
    assert plan["tokens_per_second"] > 0
    assert plan["seconds"] == pytest.approx(1000 / plan["steps_per_second"])
    assert plan["parameters"] > 300 * 16
    assert not (tmp_path / "run").exists()


def test_plot_draws_a_picture(run: Path, tmp_path: Path) -> None:
    done = regard("plot", str(run), "--out", str(tmp_path / "curves.png"))
    assert done.stdout.strip() == str(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_verify_proves_that_a_run_resumes(run: Path) -> None:
    proof = told(regard("verify", str(run), "--steps", "6", "--json"))[0]
    assert proof["exact"]
    assert proof["straight"] == proof["resumed"]
    assert {"model", "optimizer", "generators", "losses"} <= set(proof["straight"])


def test_average_is_the_mean_of_checkpoints(run: Path) -> None:
    before = resolve(str(run)).path
    written = told(regard("average", str(run), "--last", "3", "--json"))[0]
    assert written["steps"] == [3, 4, 6]
    parts = [read_weights(resolve(f"{run}@step-{step}")) for step in written["steps"]]
    mean = read_weights(resolve(f"{run}@average"))
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, sum(part[name] for part in parts) / 3)
    assert resolve(str(run)).path == Path(written["path"])
    assert resolve(f"{run}@best").path == before
    many = regard("average", str(run), "--last", "9")
    assert many.returncode == 4
    assert f"regard average {quote(str(run))} --last 4, or train.keep=9" in many.stderr
    assert regard("average", str(run)).returncode == 2


def test_the_doctor_looks_around() -> None:
    health = told(regard("doctor", "--json"))[0]
    assert health["fp32_gflops"] > 0 and health["cores"] >= 1
    assert "versions" in regard("doctor").stdout


@pytest.mark.parametrize(
    ("words", "status", "pieces"),
    [
        (["corpus.train={kind: tsv, path: nowhere.tsv}"], 3, ["nowhere.tsv"]),
        (["corpus.train={kind: tsv, path: empty.tsv}"], 3, ["train", "no sample"]),
        (["corpus.train={kind: text, source: two.en, target: one.fr}"], 3, ["two.en has 2 lines", "one.fr has 1"]),
        (["model.vocabulary=7"], 2, ["model.vocabulary: 7", "tokenizer"]),
        (["model=bert-tiny"], 2, ["no decoder"]),
        (["model.heads=7"], 2, ["heads"]),
        (["trian.steps=3"], 2, ["did you mean 'train'"]),
        (["device=cuda"], 2, ["cuda"]),
        (["corpus.train.policy=stop"], 2, ["policy"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_mistake_is_one_message_a_status_and_nothing_half_written(
    words: list[str], status: int, pieces: list[str], tmp_path: Path
) -> None:
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "two.en").write_text("one\ntwo\n")
    (tmp_path / "one.fr").write_text("un\n")
    (tmp_path / "good.tsv").write_text("one\tun\ntwo\tdeux\n")
    tree = document(tmp_path / "run").tree | {"data": str(tmp_path)}
    tree["corpus"] = {"kind": "files", "train": {"kind": "tsv", "path": "good.tsv"}}
    tree["tokenizer"] = {"pieces": "character"}
    (tmp_path / "run.yaml").write_text(json.dumps(tree))
    done = regard("train", str(tmp_path / "run.yaml"), *words)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    for piece in pieces:
        assert piece in done.stderr
    assert not (tmp_path / "run").exists()


def test_what_is_not_a_run_is_told(tmp_path: Path) -> None:
    for verb in ("translate", "eval", "resume", "verify"):
        done = typed("", verb, str(tmp_path))
        assert done.returncode == 4
        assert "not a run" in done.stderr
    assert regard("plot", str(tmp_path)).returncode == DataError.status


@pytest.mark.parametrize("model", ["tutorial", "bahdanau", "luong", "mamba", "ssm", "pool", "recurrent", "mean-pool"])
def test_any_encoder_and_decoder_trains_and_translates(model: str, tmp_path: Path) -> None:
    tree = document(tmp_path / "run").tree
    tree["model"] = {"kind": model, "width": 16} | (
        {"heads": 2, "hidden": 32, "depth": 1} if model == "mean-pool" else {}
    )
    if model in ("mamba", "ssm", "pool", "recurrent"):
        tree["model"] = {"kind": "transformer-tiny", "width": 16, "depth": 1, "heads": 2, "hidden": 32, "mix": model}
    (tmp_path / "run.yaml").write_text(json.dumps(tree))
    done = regard("train", str(tmp_path / "run.yaml"), "train.steps=3", "train.evaluate=0", "--json")
    assert told(done)[0]["steps"] == 3
    source = next(pairs("test")).source
    assert typed(f"{source}\n", "translate", str(tmp_path / "run"), "--beam", "2").returncode == 0


def test_separate_vocabularies(tmp_path: Path) -> None:
    tree = document(tmp_path / "run", "tokenizer.shared=false", "train.steps=2").tree
    (tmp_path / "run.yaml").write_text(json.dumps(tree))
    assert regard("train", str(tmp_path / "run.yaml")).returncode == 0
    checkpoint = resolve(str(tmp_path / "run"))
    assert (checkpoint.path / "tokenizer.source.json").exists()
    assert typed("She sleeps.\n", "translate", str(tmp_path / "run")).returncode == 0
