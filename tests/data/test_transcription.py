"""Conversations, preferences and prompts from files, in the layouts that others write, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import regard.data.readers  # noqa: F401  enters every reader
from regard.data.log import Log
from regard.data.reader import ReaderSpec, choose_reader
from regard.data.sample import Form, FormSpec, Sample
from regard.errors import DataError
from regard.runs.look import look_at_files
from tests.cli.test_cli import regard as call

Turn = dict[str, str]


def user(text: str) -> Turn:
    return {"role": "user", "content": text}


def assistant(text: str) -> Turn:
    return {"role": "assistant", "content": text}


def system(text: str) -> Turn:
    return {"role": "system", "content": text}


def read(path: Path, form: Form, **settings: Any) -> tuple[list[Sample], Log]:
    log = Log()
    reader = ReaderSpec.parse({"path": str(path), **settings}) if settings else choose_reader(form, [str(path)])
    samples = list(reader.read(form, log))
    assert not any(FormSpec.parse(form).find_fault(sample) for sample in samples)
    return [{name: value for name, value in sample.items() if name != "place"} for sample in samples], log


def write(folder: Path, rows: list[Any], name: str = "a.jsonl") -> Path:
    path = folder / name
    text = json.dumps(rows, indent=1) if name.endswith(".json") else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


TALK = [system("Be short."), user("Hi"), assistant("Hello"), user("And?"), assistant("Well.")]
SHARED = [{"from": name, "value": text} for name, text in (("human", "Hi"), ("gpt", "Hello"))]
TEXTS = "\n\nHuman: Hi\n\nAssistant: Hello\n\nHuman: And?\n\nAssistant: {}"


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
@pytest.mark.parametrize(
    ("row", "messages"),
    [
        ({"messages": TALK}, TALK),
        ({"conversations": SHARED}, TALK[1:3]),
        ({"conversations": SHARED, "system": "Be short."}, TALK[:3]),
        ({"conversations": [{"from": "system", "value": ""}, *SHARED]}, TALK[1:3]),
        ({"prompt": "Hi", "completion": "Hello"}, TALK[1:3]),
        ({"instruction": "Add.", "input": "1 and 2", "output": "3"}, [user("Add.\n\n1 and 2"), assistant("3")]),
        ({"instruction": "Hi", "input": "", "output": "Hello"}, TALK[1:3]),
        ({"messages": TEXTS.format("Well."), "id": 3}, TALK[1:]),
    ],
)
def test_conversations_of_every_layout(tmp_path: Path, name: str, row: Any, messages: list[Turn]) -> None:
    samples, log = read(write(tmp_path, [row], name), "conversations")
    assert samples == [{"messages": messages}] and log.kept == 1


@pytest.mark.parametrize(
    ("row", "prompt"),
    [
        ({"prompt": "Hi", "chosen": "Good", "rejected": "Bad"}, [user("Hi")]),
        ({"prompt": TALK[:4], "chosen": "Good", "rejected": "Bad"}, TALK[:4]),
        ({"prompt": TALK[:2], "chosen": [assistant("Good")], "rejected": [assistant("Bad")]}, TALK[:2]),
        ({"chosen": [*TALK[:4], assistant("Good")], "rejected": [*TALK[:4], assistant("Bad")]}, TALK[:4]),
        # the prompt is told twice
        ({"prompt": "Hi", "chosen": [user("Hi"), assistant("Good")], "rejected": [user("Hi"), assistant("Bad")]},
         [user("Hi")]),
        ({"conversations": SHARED[:1], "chosen": {"from": "gpt", "value": "Good"},
          "rejected": {"from": "gpt", "value": "Bad"}}, [user("Hi")]),
        ({"chosen": TEXTS.format("Good"), "rejected": TEXTS.format("Bad")}, TALK[1:4]),
        ({"prompt": TEXTS.format(""), "chosen": "Good", "rejected": "Bad"}, TALK[1:4]),
        ({"system": "Be short.", "chosen": [user("Hi"), assistant("Good")], "rejected": [user("Hi"), assistant("Bad")]},
         TALK[:2]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_preferences_of_every_layout(tmp_path: Path, name: str, row: Any, prompt: list[Turn]) -> None:
    samples, _ = read(write(tmp_path, [row], name), "preferences")
    assert samples == [{"prompt": prompt, "chosen": "Good", "rejected": "Bad"}]


def test_a_margin_is_kept(tmp_path: Path) -> None:
    row = {"prompt": "Hi", "chosen": "Good", "rejected": "Bad", "margin": 2}
    assert read(write(tmp_path, [row]), "preferences")[0][0]["margin"] == 2.0


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"prompt": "Hi"}, {"prompt": [user("Hi")]}),
        ({"prompt": TALK[:4]}, {"prompt": TALK[:4]}),
        ({"question": "1 + 2", "answer": 3}, {"prompt": [user("1 + 2")], "answer": "3"}),
        ({"messages": TALK}, {"prompt": TALK[:4], "answer": "Well."}),
        ({"prompt": TEXTS.format("")}, {"prompt": TALK[1:4], "answer": ""}),
    ],
)
def test_prompts_of_every_layout(tmp_path: Path, row: Any, expected: Sample) -> None:
    expected = {name: value for name, value in expected.items() if value != ""}
    assert read(write(tmp_path, [row]), "prompts")[0] == [expected]


def test_prompts_are_lines_of_plain_text_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Where is it?\n\n  as it is, with a comma\n", encoding="utf-8")
    samples, log = read(tmp_path / "a.txt", "prompts")
    assert samples == [{"prompt": [user("Where is it?")]}, {"prompt": [user("  as it is, with a comma")]}]
    assert dict(log.reasons) == {"empty line": 1}


@pytest.mark.parametrize(("name", "sign"), [("a.csv", ","), ("a.tsv", "\t")])
@pytest.mark.parametrize("header", [True, False])
def test_preferences_in_text_tables(tmp_path: Path, name: str, sign: str, header: bool) -> None:
    rows = [["prompt", "chosen", "rejected"]] * header + [["Hi there", "Good one", "Bad one"]]
    (tmp_path / name).write_text("".join(sign.join(row) + "\n" for row in rows), encoding="utf-8")
    samples, _ = read(tmp_path / name, "preferences")
    assert samples == [{"prompt": [user("Hi there")], "chosen": "Good one", "rejected": "Bad one"}]


def test_a_header_is_known_by_the_usual_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,instruction,input,response\n1,Add.,1 and 2,3\n", encoding="utf-8")
    assert read(tmp_path / "a.csv", "conversations")[0] == [{"messages": [user("Add.\n\n1 and 2"), assistant("3")]}]
    assert read(tmp_path / "a.csv", "prompts")[0] == [{"prompt": [user("Add.\n\n1 and 2")], "answer": "3"}]


def test_columns_may_be_told(tmp_path: Path) -> None:
    path = write(tmp_path, [{"a": "Hi", "b": "Good", "c": "Bad", "messages": "no"}])
    samples, _ = read(path, "preferences", prompt="a", chosen="b", rejected="c")
    assert samples == [{"prompt": [user("Hi")], "chosen": "Good", "rejected": "Bad"}]
    samples, _ = read(path, "conversations", prompt="a", answer="b")
    assert samples == [{"messages": [user("Hi"), assistant("Good")]}]
    with pytest.raises(DataError, match="looked for: chosen and rejected"):
        read(path, "preferences")


@pytest.mark.parametrize(
    ("form", "row", "reason"),
    [
        ("conversations", {"messages": [{"role": "tool", "content": "x"}]}, "a role that isn't known: 'tool'"),
        ("conversations", {"messages": [user("Hi"), {"role": 3, "content": "x"}]}, "a role that isn't known: 3"),
        ("conversations", {"messages": [user("Hi"), assistant(" ")]}, "empty answer: the assistant's"),
        ("conversations", {"messages": [user(""), assistant("x")]}, "empty message: the user's"),
        ("conversations", {"messages": [user("Hi"), {"role": "assistant"}]}, "a message without content"),
        ("conversations", {"messages": [user("Hi"), {"role": "user", "content": None}]}, "a content that isn't text"),
        ("conversations", {"messages": [user("Hi"), {"role": "assistant", "content": [{"text": "x"}]}]},
         "a content that isn't text: [{'text': 'x'}]"),
        ("conversations", {"messages": [user("Hi"), "Hello"]}, "a message that isn't an object: 'Hello'"),
        ("conversations", {"messages": [user("Hi")]}, "no assistant turn"),
        ("conversations", {"messages": []}, "no text: messages"),
        ("conversations", {"messages": [user("Hi"), assistant("a\0b")]}, "NUL"),
        ("prompts", {"prompt": ""}, "empty message: the user's"),
        ("prompts", {"prompt": 3}, "no text: prompt"),
        ("prompts", {"prompt": [assistant("Hello")]}, "no messages"),
        ("preferences", {"prompt": "Hi", "chosen": "a", "rejected": "a"}, "chosen and rejected are equal"),
        ("preferences", {"prompt": "Hi", "chosen": "", "rejected": "a"}, "empty answer: chosen"),
        ("preferences", {"prompt": "Hi", "chosen": "a"}, "no text: rejected"),
        ("preferences", {"prompt": "Hi", "chosen": "a", "rejected": "b", "margin": "x"}, "margin isn't a number: 'x'"),
        ("preferences", {"chosen": "a", "rejected": "b"}, "chosen and rejected share no prompt"),
        ("preferences", {"chosen": [user("a"), assistant("x")], "rejected": [user("b"), assistant("y")]},
         "chosen and rejected part before their last answers"),
        ("preferences", {"prompt": "c", "chosen": [user("a"), assistant("x")], "rejected": [user("a"), assistant("y")]},
         "chosen and rejected don't begin with their prompt"),
        ("preferences", {"chosen": [user("a"), user("x")], "rejected": [user("a"), user("y")]},
         "no answer: chosen ends with what the user says"),
        ("preferences", {"chosen": "Psst.\n\nHuman: Hi\n\nAssistant: a", "rejected": TEXTS.format("b")}, None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_counted_and_located(tmp_path: Path, form: Form, row: Any, reason: str | None) -> None:
    good = {
        "conversations": {"messages": TALK},
        "prompts": {"prompt": "Hi"},
        "preferences": {"prompt": "Hi", "chosen": "Good", "rejected": "Bad", "margin": None},
    }[form]
    path = write(tmp_path, [good, row, good])
    log = Log(report=tmp_path / "report")
    samples = list(choose_reader(form, [str(path)]).read(form, log))
    log.close()
    assert (len(samples), log.kept, log.skipped) == (2, 2, 1)
    told = (tmp_path / "report").read_text(encoding="utf-8")
    assert told.startswith(f"{path}:2: {reason or ''}") and told.count("\n") == 1
    with pytest.raises(DataError, match=r"a\.jsonl:2"):
        list(choose_reader(form, [str(path)]).read(form, Log("stop")))


@pytest.mark.parametrize(
    ("row", "form"),
    [
        ({"messages": TALK}, "conversations"),
        ({"conversations": SHARED}, "conversations"),
        ({"chosen": TEXTS.format("Good"), "rejected": TEXTS.format("Bad")}, "preferences"),
        (
            {"conversations": SHARED[:1], "chosen": SHARED[1], "rejected": {"from": "gpt", "value": "Bad"}},
            "preferences",
        ),
        ({"prompt": "Hi"}, "prompts"),
    ],
)
def test_files_are_looked_at_without_a_word(tmp_path: Path, row: Any, form: Form) -> None:
    found = look_at_files([str(write(tmp_path, [row] * 3))])
    assert found.form == form and found.survey.splits["train"].samples == 3
    assert "words" in " ".join(found.survey.splits["train"].lengths)
    json.dumps(found.as_json())


def test_conversations_that_begin_alike_stay_on_one_side_of_a_split() -> None:
    form = FormSpec.parse("conversations")
    assert form.identify({"messages": TALK}) == form.identify({"messages": [*TALK[:2], assistant("Other")]})
    assert form.identify({"messages": TALK}) != form.identify({"messages": TALK[1:]})


def test_rows_in_python_and_columns_of_arrow_hold_conversations_too(tmp_path: Path) -> None:
    rows = [{"messages": TALK}, {"messages": TALK[1:3]}]
    handed = ReaderSpec.parse({"kind": "rows", "rows": rows})
    expected = [row["messages"] for row in rows]
    assert [sample["messages"] for sample in handed.read("conversations", Log())] == expected
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert [sample["messages"] for sample in read(tmp_path / "a.parquet", "conversations")[0]] == expected


def test_a_look_shows_who_says_what_in_eighty_columns(tmp_path: Path) -> None:
    rows = [{"messages": TALK}, {"messages": [user("Hi"), {"role": "tool", "content": "x"}]}]
    done = call("data", str(write(tmp_path, rows)))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("conversations, for the task")
    assert "messages: system: Be short. user: Hi assistant: Hello" in done.stdout
    assert "a role that isn't known" in done.stdout and "a.jsonl:2" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
