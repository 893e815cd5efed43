"""Readers on good files and on every kind of damage: exact counts, places and reasons."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal
from unittest.mock import patch

import pytest

from regard.data.corpus import list_givers
from regard.data.log import Log, Policy
from regard.data.reader import PairReader, ReaderSpec, choose_reader
from regard.data.readers.tmx import normal
from regard.data.sample import Form
from regard.data.source import Paths
from regard.errors import DataError, InputError, SpecError


def list_pairs(reader: ReaderSpec, log: Log) -> Iterator[tuple[str, str]]:
    return ((sample["source"], sample["target"]) for sample in reader.read("pairs", log))


def read(spec: Any, policy: Policy = "skip", report: Path | None = None) -> tuple[list[tuple[str, str]], Log]:
    log = Log(policy, report)
    found = list(list_pairs(ReaderSpec.parse(spec), log))
    log.close()
    return found, log


def meant(names: list[str]) -> list[tuple[str, str]]:
    """The pairs in files whose reader is told by their names."""
    return [(sample["source"], sample["target"]) for sample in choose_reader("pairs", names).samples(Log("stop"))]


def text(tmp_path: Path, source: bytes, target: bytes, **more: Any) -> dict[str, Any]:
    (tmp_path / "a.en").write_bytes(source)
    (tmp_path / "a.fr").write_bytes(target)
    return {"kind": "text", "source": str(tmp_path / "a.en"), "target": str(tmp_path / "a.fr"), **more}


def test_two_aligned_files(tmp_path: Path) -> None:
    found, log = read(text(tmp_path, b"one\ntwo\n", b"un\ndeux\n"))
    assert found == [("one", "un"), ("two", "deux")]
    assert (log.kept, log.repaired, log.skipped) == (2, 0, 0)


def test_lists_of_files_are_read_in_order(tmp_path: Path) -> None:
    for name, content in (("1.en", "a\n"), ("1.fr", "b\n"), ("2.en", "c\n"), ("2.fr", "d\n")):
        (tmp_path / name).write_text(content)
    paths = {side: [str(tmp_path / f"{n}.{end}") for n in (1, 2)] for side, end in (("source", "en"), ("target", "fr"))}
    assert read({"kind": "text", **paths})[0] == [("a", "b"), ("c", "d")]
    with pytest.raises(DataError, match="2 source files and 1 target files"):
        read({"kind": "text", **paths, "target": paths["target"][:1]})


@pytest.mark.parametrize("packed", [False, True])
def test_tsv_and_jsonl_plain_and_packed(tmp_path: Path, packed: bool) -> None:
    rows = [("one", "un"), ("dog", "chien")]
    tsv = "".join(f"{a}\t{b}\n" for a, b in rows).encode()
    jsonl = "".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in rows).encode()
    for kind, content in (("tsv", tsv), ("jsonl", jsonl)):
        path = tmp_path / f"corpus.{kind}"  # gzip is known by its content, whatever the name
        path.write_bytes(gzip.compress(content) if packed else content)
        assert read({"kind": kind, "path": str(path)})[0] == rows


def test_other_columns_and_keys(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("7\tone\tx\tun\n")
    assert read({"kind": "tsv", "path": str(tmp_path / "a.tsv"), "source": 1, "target": 3})[0] == [("one", "un")]
    (tmp_path / "a.jsonl").write_text('{"en": "one", "fr": "un"}\n')
    spec = {"kind": "jsonl", "path": str(tmp_path / "a.jsonl"), "source": "en", "target": "fr"}
    assert read(spec)[0] == [("one", "un")]


def test_standard_input() -> None:
    class Stdin:
        buffer = io.BytesIO(b"one\tun\n")

    with patch.object(sys, "stdin", Stdin()):
        assert read({"kind": "tsv", "path": "-"})[0] == [("one", "un")]


def test_a_gettext_catalogue(tmp_path: Path) -> None:
    path = tmp_path / "fr.po"
    path.write_text(
        'msgid ""\nmsgstr ""\n"Language: fr\\n"\n\n'
        '#: page.html\nmsgid "Save"\nmsgstr "Enregistrer"\n\n'
        'msgid ""\n"A long "\n"line\\n"\nmsgstr "Une longue ligne\\n"\n\n'
        '#, fuzzy\nmsgid "Guess"\nmsgstr "Deviner"\n\n'
        'msgid "%d day"\nmsgid_plural "%d days"\nmsgstr[0] "%d jour"\nmsgstr[1] "%d jours"\n\n'
        'msgid "Untranslated"\nmsgstr ""\n',
        encoding="utf-8",
    )
    found, log = read({"kind": "po", "path": str(path)})
    assert found == [
        ("Save", "Enregistrer"),
        ("A long line", "Une longue ligne"),
        ("%d day", "%d jour"),
        ("%d days", "%d jours"),
    ]
    assert log.reasons == {"fuzzy": 1, "empty": 1}


def test_a_translation_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(
        '<?xml version="1.0"?><tmx version="1.4"><header/><body>'
        '<tu><tuv xml:lang="en-GB"><seg>The <bpt i="1"/>cat</seg></tuv><tuv xml:lang="fr"><seg>Le chat</seg></tuv></tu>'
        '<tu><tuv xml:lang="en"><seg>Dog</seg></tuv><tuv xml:lang="de"><seg>Hund</seg></tuv></tu>'
        "</body></tmx>"
    )
    found, log = read({"kind": "tmx", "path": str(path), "source": "en", "target": "fr"})
    assert found == [("The cat", "Le chat")]
    assert log.skipped == 1
    path.write_text("<tmx><body><tu>")
    assert read({"kind": "tmx", "path": str(path), "source": "en", "target": "fr"})[1].reasons == {"damaged XML": 1}


def po(tmp_path: Path, content: str | bytes, policy: Policy = "skip") -> tuple[list[tuple[str, str]], Log]:
    path = tmp_path / "fr.po"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read({"kind": "po", "path": str(path)}, policy)


def test_gettext_entries_need_no_empty_line_between_them(tmp_path: Path) -> None:
    found, log = po(
        tmp_path,
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
        'msgid "one"\nmsgstr "un"\n'
        '# a note\n#, c-format, fuzzy\nmsgid "guess"\nmsgstr "deviner"\n'
        '#, fuzzy-not\nmsgctxt "menu"\nmsgid "Open"\nmsgstr "Ouvrir"\n'
        'msgctxt "state"\nmsgid "Open"\nmsgstr "Ouvert"\n'
        '#, fuzzy\n#~ msgid "old"\n#~ msgstr "vieux"\n'
        'msgid "%d day"\nmsgid_plural "%d days"\nmsgstr[0] "%d jour"\nmsgstr[1] "%d jours"\n'
        'msgid "two"\n# in between\n\nmsgstr "de"\n"ux"\nmsgid "three"\nmsgstr "trois"',
    )
    days = [("%d day", "%d jour"), ("%d days", "%d jours")]
    assert found == [("one", "un"), ("Open", "Ouvrir"), ("Open", "Ouvert"), *days, ("two", "deux"), ("three", "trois")]
    assert log.reasons == {"fuzzy": 1}


def test_a_plural_pairs_with_the_last_of_many_forms(tmp_path: Path) -> None:
    forms = "".join(f'msgstr[{n}] "forme {n}"\n' for n in range(11))
    assert po(tmp_path, f'msgid "form"\nmsgid_plural "forms"\n{forms}')[0] == [
        ("form", "forme 0"),
        ("forms", "forme 10"),
    ]


def test_gettext_escapes_are_those_of_c(tmp_path: Path) -> None:
    found, _ = po(tmp_path, 'msgid "a\\tb\\\\n\\"c\\" \\x41\\101\\\'"\nmsgstr "d"\n')
    assert found == [('a\tb\\n"c" AA\'', "d")]


@pytest.mark.parametrize("charset", ["ISO-8859-1", "iso-8859-15", "windows-1252", "UTF-8", "GB18030"])
def test_a_catalogue_is_read_in_the_charset_that_its_header_names(tmp_path: Path, charset: str) -> None:
    content = (
        f'# Jérôme\nmsgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={charset}\\n"\n\n'
        '#. à traduire\nmsgid "summer"\nmsgstr "été"\n'
    )
    found, log = po(tmp_path, content.encode(charset), "stop")
    assert found == [("summer", "été")]
    assert not log.reasons


@pytest.mark.parametrize("charset", ["KLINGON-8", "UTF-16", "rot13", "cp037"])
def test_a_charset_that_cant_be_read_is_refused_by_name(tmp_path: Path, charset: str) -> None:
    content = f'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={charset}\\n"\n\nmsgid "a"\nmsgstr "b"\n'
    with pytest.raises(DataError, match=f"fr.po:3: the charset '{charset}'"):
        po(tmp_path, content)
    assert po(tmp_path, content.replace(charset, "CHARSET"))[0] == [("a", "b")]


@pytest.mark.parametrize("blank", ["", "\n"])
@pytest.mark.parametrize("context", ["", 'msgctxt "page"\n'])
def test_a_text_about_charsets_changes_no_charset(tmp_path: Path, blank: str, context: str) -> None:
    found, log = po(
        tmp_path,
        f'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n{blank}'
        f'{context}msgid ""\n"charset=latin1"\nmsgstr ""\n"charset=KLINGON-8"\n{blank}'
        f'{context}msgid "charset=latin1"\nmsgstr "charset=cp037"\n{blank}'
        'msgid "summer"\nmsgstr "été"\n',
        "stop",
    )
    texts = [("charset=latin1", "charset=KLINGON-8"), ("charset=latin1", "charset=cp037"), ("summer", "été")]
    assert found == texts
    assert not log.reasons


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (b'msgid "a\xff"\nmsgstr "b"\n', "bad UTF-8"),
        (b'msgid "a"\nmsgstr "b"\n"\xff"\n', "bad UTF-8"),
        (b'msgid "a"\nnonsense\nmsgstr "b"\n', "not gettext"),
        (b'msgid "a "quoted" b"\nmsgstr "b"\n', "not gettext"),
        (b'msgstr "b"\n', "not gettext"),
        (b"nonsense\n", "not gettext"),
    ],
)
def test_an_entry_with_a_bad_line_is_left_out_whole_and_once(tmp_path: Path, damage: bytes, reason: str) -> None:
    found, log = po(tmp_path, b'msgid "one"\nmsgstr "un"\n\n' + damage + b'\nmsgid "two"\nmsgstr "deux"\n')
    assert found == [("one", "un"), ("two", "deux")]
    assert (log.kept, log.skipped) == (2, 1)
    assert log.reasons == {reason: 1}


def tmx(tmp_path: Path, body: str, head: str = '<header srclang="en"/>', **more: Any) -> list[tuple[str, str]]:
    (tmp_path / "a.tmx").write_text(f'<?xml version="1.0"?><tmx version="1.4">{head}<body>{body}</body></tmx>')
    return read({"kind": "tmx", "path": str(tmp_path / "a.tmx"), **more})[0]


def unit(*texts: tuple[str, str]) -> str:
    return "<tu>" + "".join(f'<tuv xml:lang="{name}"><seg>{text}</seg></tuv>' for name, text in texts) + "</tu>"


CODED = (
    '<bpt i="1">&lt;b&gt;</bpt>Save<ept i="1">&lt;/b&gt;</ept> <hi>the <hi>green</hi> file</hi>'
    '<ph x="1">{0<sub>note</sub>}</ph>.<it pos="begin">&lt;i&gt;</it><ut>\\par</ut>'
)


def test_what_codes_hold_is_no_text(tmp_path: Path) -> None:
    found = tmx(tmp_path, unit(("en", CODED), ("fr", "Enregistrer")), source="en", target="fr")
    assert found == [("Save the green file.", "Enregistrer")]


@pytest.mark.parametrize(
    ("wanted", "there", "matches"),
    [
        ("en", "en", True),
        ("en", "EN-gb", True),
        ("en", "en_US", True),
        ("en_US", "en-us", True),
        ("en-US", "en", True),
        ("en-US", "en-GB", False),
        ("en", "eng", False),
        ("zh-Hant", "zh-hant-TW", True),
    ],
)
def test_languages_match_however_they_are_written(tmp_path: Path, wanted: str, there: str, matches: bool) -> None:
    found = tmx(tmp_path, unit((there, "cat"), ("fr", "chat")), source=wanted, target="fr")
    assert found == ([("cat", "chat")] if matches else [])
    if normal(wanted) != normal(there):
        nearer = unit((there, "far"), (wanted, "near"), ("fr", "chat"))
        assert tmx(tmp_path, nearer, source=wanted, target="fr") == [("near", "chat")]


def test_one_text_is_never_both_source_and_target(tmp_path: Path) -> None:
    assert tmx(tmp_path, unit(("en", "cat")), source="en", target="en-GB") == []


def test_a_memory_may_have_a_namespace_and_languages_from_around(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(
        '<tmx xmlns="http://www.lisa.org/tmx14" version="1.4" xml:lang="en"><header/><body><tu>'
        '<tuv><seg>cat</seg></tuv><tuv lang="fr"><seg>chat</seg></tuv></tu></body></tmx>'
    )
    assert read({"kind": "tmx", "path": str(path), "source": "en", "target": "fr"})[0] == [("cat", "chat")]


def test_a_memory_says_its_languages_itself_where_that_is_clear(tmp_path: Path) -> None:
    both, path = unit(("fr-FR", "chat"), ("en_US", "cat")), tmp_path / "a.tmx"
    assert tmx(tmp_path, both) == [("cat", "chat")]
    assert meant([str(path)]) == [("cat", "chat")]
    assert meant([str(path), "fr", "en"]) == [("chat", "cat")]
    assert tmx(tmp_path, both, '<header srclang="*all*"/>') == [("chat", "cat")]
    for head, body in (('<header srclang="de"/>', both), ("", unit(("en", "a"), ("fr", "b"), ("de", "c")))):
        with pytest.raises(DataError, match=r"a.tmx:tu 1: which language is the source\?") as error:
            tmx(tmp_path, body, head)
        assert f"--data {path} --data en --data fr" in error.value.hint
    with pytest.raises(SpecError, match="both languages or neither"):
        tmx(tmp_path, both, source="en")


def test_a_memory_is_read_in_the_same_memory_however_long_it_is(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        path = tmp_path / f"{count}.tmx"
        with path.open("w") as file:
            file.write('<tmx><header srclang="en"/><body>')
            file.writelines(unit(("en", f"sentence number {n}"), ("fr", f"phrase {n}")) for n in range(count))
            file.write("</body></tmx>")
        tracemalloc.start()
        assert sum(1 for _ in list_pairs(ReaderSpec.parse({"kind": "tmx", "path": str(path)}), Log("stop"))) == count
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(100)  # what the first use costs
    assert peak(10_000) < peak(2_000) + 50_000


def test_entities_cant_blow_up_and_files_cant_be_drawn_in(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 20}">' for n in range(1, 8))
    entities = f'<!ENTITY l0 "{"ha" * 500}"><!ENTITY file SYSTEM "{tmp_path}/secret">{laughs}'
    (tmp_path / "secret").write_text("secret")
    for name in ("&l7;", "&file;"):
        bomb = unit(("en", name), ("fr", "b"))
        path.write_text(f"<!DOCTYPE tmx [{entities}]><tmx><body>{unit(('en', 'a'), ('fr', 'b'))}{bomb}</body></tmx>")
        tracemalloc.start()
        found, log = read({"kind": "tmx", "path": str(path)})
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found == [("a", "b")]
        assert log.skipped == 1
        assert most < 20_000_000


def test_a_segment_that_is_too_long_is_left_out(tmp_path: Path) -> None:
    long = unit(("en", "x" * 30), ("fr", "b")) + unit(("en", "cat"), ("fr", "chat"))
    assert tmx(tmp_path, long, longest=20) == [("cat", "chat")]


SEPARATOR = "\u2028".encode()

# what a line is, and for each policy: how many are kept, of them repaired, and skipped, beside one good line
DAMAGE: list[tuple[str, bytes, dict[str, tuple[int, int, int]]]] = [
    ("bad UTF-8", b"caf\xe9", {"skip": (1, 0, 1), "repair": (2, 1, 0)}),
    ("lone surrogate", b"a\xed\xa0\x80b", {"skip": (1, 0, 1), "repair": (2, 1, 0)}),
    ("empty", b"\n", {"skip": (1, 0, 1), "repair": (1, 0, 1)}),
    ("blank", b" \t ".replace(b"\t", b" "), {"skip": (1, 0, 1), "repair": (1, 0, 1)}),
    ("1 MB line", b"x" * 1_000_001, {"skip": (1, 0, 1), "repair": (1, 0, 1)}),
    ("NUL", b"a\0b", {"skip": (1, 0, 1), "repair": (2, 1, 0)}),
    ("carriage return", b"fine\r", {"skip": (2, 0, 0), "repair": (2, 0, 0), "stop": (2, 0, 0)}),
    ("U+2028", b"one" + SEPARATOR + b"line", {"skip": (2, 0, 0), "repair": (2, 0, 0), "stop": (2, 0, 0)}),
    ("U+0085", "one\u0085line".encode(), {"skip": (2, 0, 0), "repair": (2, 0, 0), "stop": (2, 0, 0)}),
]
CASES = [(name, line, policy, counts) for name, line, each in DAMAGE for policy, counts in each.items()]


@pytest.mark.parametrize(("name", "line", "policy", "counts"), CASES, ids=[f"{c[0]}, {c[2]}" for c in CASES])
def test_damage_is_counted_and_located(tmp_path: Path, name: str, line: bytes, policy: Any, counts: Any) -> None:
    for side in ("source", "target"):
        good, bad = b"good\nfine", b"good\n" + line  # without a newline at the end
        spec = text(tmp_path, *((bad, good) if side == "source" else (good, bad)))
        report = tmp_path / "report.txt"
        report.unlink(missing_ok=True)
        found, log = read(spec, policy, report)
        assert (log.kept, log.repaired, log.skipped) == counts
        assert len(found) == log.kept
        damaged = counts[1] + counts[2]
        assert sum(log.reasons.values()) == damaged
        if damaged:
            place = "a.en" if side == "source" or name in ("empty", "blank") else "a.fr"
            assert f"{place}:2: " in report.read_text()
            with pytest.raises(DataError, match=f"{place}:2: "):
                read(spec, "stop")


def test_a_byte_order_mark_is_not_text(tmp_path: Path) -> None:
    assert read(text(tmp_path, b"\xef\xbb\xbfone\n", b"un\n"), "stop")[0] == [("one", "un")]


def test_what_is_repaired_can_be_encoded(tmp_path: Path) -> None:
    ((source, _),) = read(text(tmp_path, b"a\0\xffb\n", b"x\n"), "repair")[0]
    assert source == "a\ufffdb"
    (tmp_path / "s.jsonl").write_text('{"source": "a\\ud800b\\u0000", "target": "c"}\n')
    ((source, _),) = read({"kind": "jsonl", "path": str(tmp_path / "s.jsonl")}, "repair")[0]
    assert source == "a\ufffdb"


def test_a_pair_with_two_faults_is_one_pair_skipped(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    found, log = read(text(tmp_path, b"good\na\0\n", b"bon\n\xff\n"), "skip", report)
    assert found == [("good", "bon")]
    assert (log.kept, log.skipped) == (1, 1)
    assert len(report.read_text().splitlines()) == 2  # both faults are told
    assert "1 kept, 0 of them repaired, 1 skipped" in log.summary()


@pytest.mark.parametrize(
    ("line", "reason"), [("one\n", "too few columns"), ("a\tb\tc\n", "too many columns"), ("\n", "empty")]
)
def test_ragged_tsv(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "a.tsv").write_text("one\tun\n" + line)
    spec = {"kind": "tsv", "path": str(tmp_path / "a.tsv")}
    assert read(spec)[1].skipped == 1
    found, _ = read(spec, "repair")
    assert len(found) == (2 if "many" in reason else 1)
    with pytest.raises(DataError, match=f"a.tsv:2: {reason}"):
        read(spec, "stop")


@pytest.mark.parametrize("line", ["not json", "[1]", '{"source": "a"}', '{"source": 1, "target": "b"}', "[" * 100_000])
def test_ragged_jsonl(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"source": "a", "target": "b"}\n' + line + "\n")
    found, log = read({"kind": "jsonl", "path": str(tmp_path / "a.jsonl")})
    assert found == [("a", "b")]
    assert log.skipped == 1


@pytest.mark.parametrize("lines", [(3, 2), (2, 5), (1, 0)])
def test_counts_that_differ_are_an_error_with_both(tmp_path: Path, lines: tuple[int, int]) -> None:
    spec = text(tmp_path, b"a\n" * lines[0], b"b\n" * lines[1])
    for policy in ("skip", "repair", "stop"):
        with pytest.raises(DataError, match=rf"a.en has {lines[0]} lines and .*a.fr has {lines[1]}") as caught:
            read(spec, policy)
        assert caught.value.status == 3


def test_a_truncated_gzip_is_located_and_what_came_before_is_kept(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"%d\tn\n" % n for n in range(50_000)))
    (tmp_path / "a.tsv.gz").write_bytes(whole[: len(whole) // 2])
    spec = {"kind": "tsv", "path": str(tmp_path / "a.tsv.gz")}
    found, log = read(spec)
    assert 0 < len(found) < 50_000
    assert log.reasons == {"damaged gzip": 1}
    with pytest.raises(DataError, match=r"a.tsv.gz:\d+: damaged gzip"):
        read(spec, "stop")


def test_a_missing_file_is_one_clear_message(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.tsv: No such file"):
        read({"kind": "tsv", "path": str(tmp_path / "nowhere.tsv")})
    with pytest.raises(SpecError, match="did you mean 'path'"):
        read({"kind": "tsv", "paht": "x"})


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        path = tmp_path / f"{count}.tsv"
        with path.open("w") as file:
            file.writelines(f"sentence number {n}\tphrase {n}\n" for n in range(count))
        tracemalloc.start()
        for _ in list_pairs(ReaderSpec.parse({"kind": "tsv", "path": str(path)}), Log()):
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(60_000) < peak(3_000) + 100_000


@pytest.mark.parametrize(
    ("form", "names", "kind"),
    [
        ("pairs", ["a.tsv"], "tsv"),
        ("pairs", ["a.TXT.gz"], "tsv"),
        ("pairs", ["a.jsonl"], "jsonl"),
        ("pairs", ["a.po"], "po"),
        ("pairs", ["a.tmx"], "tmx"),
        ("pairs", ["a.tmx", "en", "fr"], "tmx"),
        ("pairs", ["a.tsv", "b.tsv"], "text"),
        ("documents", ["a.tsv", "b", "c"], "documents"),
        ("labels", ["a.tsv", "b.jsonl"], "labels"),
        ("tags", ["a.conllu", "b.conllu.gz"], "conllu"),
        ("tags", ["a.conllu", "b.txt"], "columns"),
    ],
)
def test_a_reader_is_told_by_the_names_of_files(form: str, names: list[str], kind: str) -> None:
    assert choose_reader(form, names).kind == kind


@pytest.mark.parametrize("names", [[], ["a.doc"], ["a.tsv", "b.tsv", "c.tsv"], ["a.tmx", "en", "fr", "de"]])
def test_files_that_no_reader_takes_are_refused_with_what_is_known(names: list[str]) -> None:
    with pytest.raises(DataError, match="no reader of pairs takes such files") as error:
        choose_reader("pairs", names)
    for known in ("a source and a target file", ".tsv, .txt", ".jsonl", ".po", ".tmx"):
        assert known in str(error.value)


def test_a_form_that_no_reader_has_is_not_read_from_files() -> None:
    with pytest.raises(InputError, match="series can't be read from files"):
        choose_reader("series", ["a.tsv"])


def test_a_reader_with_its_settings_turns_to_other_files_unless_another_is_asked_for() -> None:
    tsv = ReaderSpec.parse({"kind": "tsv", "path": "a.tsv", "source": 2, "target": 3})
    assert tsv.turn_to(["b.tsv"], "pairs") == tsv.replace(path=["b.tsv"])
    assert tsv.turn_to(["b.jsonl"], "pairs") == ReaderSpec.parse({"kind": "jsonl", "path": ["b.jsonl"]})
    assert tsv.turn_to(["b.en", "b.fr"], "pairs") is None
    named = ReaderSpec.parse({"kind": "csv", "path": "a.csv", "source": "en", "target": "fr", "delimiter": ";"})
    kept = {"path": ["b.parquet"], "source": "en", "target": "fr"}  # another table's columns have the same names
    assert named.turn_to(["b.parquet"], "pairs") == ReaderSpec.parse({"kind": "parquet", **kept})
    memory = PairReader.parse({"kind": "tmx", "path": "a.tmx", "source": "en", "target": "fr", "longest": 9})
    turned = memory.turn_to(["b.tmx", "fr", "en"], "pairs")
    assert turned is not None and turned.fields() == memory.fields() | {"path": "b.tmx", "source": "fr", "target": "en"}
    columns = ReaderSpec.parse({"kind": "columns", "path": "a.txt", "word": 1, "tag": 3})
    assert columns.turn_to(["b.conllu"], "tags") == columns.replace(path=["b.conllu"])  # as the run was trained


def test_a_new_reader_is_one_class_and_is_asked_before_those_of_any_file() -> None:
    class Shouted(ReaderSpec):
        form: ClassVar[Form] = "documents"
        suffixes: ClassVar[tuple[str, ...]] = (".loud",)
        kind: Literal["shouted"] = "shouted"
        path: Paths

    try:
        assert choose_reader("documents", ["a.loud", "b.loud.gz"]) == Shouted(path=("a.loud", "b.loud.gz"))
        assert choose_reader("documents", ["a.loud", "b.txt"]).kind == "documents"
        assert any("documents, " in giver and ", shouted" in giver for giver in list_givers("documents"))
    finally:
        del ReaderSpec.kinds["shouted"]
