"""Where results go: files that can't be written are refused before the work, and a reader that goes away ends it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest

from regard.errors import DiskError, InputError
from regard.host.output import check_file, check_place, put

SHOW = f"{quote(sys.executable)} -m regard show"


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", ["", "--json", "transformer-tiny"], ids=["text", "json", "tree"])
def test_a_reader_that_has_seen_enough_ends_it_quietly(words: str) -> None:
    done = shell(f"{SHOW} {words} | true; exit ${{PIPESTATUS[0]}}")
    assert done.returncode == 141
    assert done.stderr.replace("next: regard show transformer-tiny", "").strip() == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("words", ["", "transformer-tiny"], ids=["text", "tree"])
def test_a_full_standard_output_is_a_full_disk(words: str) -> None:
    done = shell(f"{SHOW} {words} > /dev/full")
    assert done.returncode == DiskError.status
    assert "standard output: the disk is full" in done.stderr
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_a_closed_standard_output_is_told() -> None:
    done = shell(f"{SHOW} >&-")
    assert done.returncode == DiskError.status
    assert "standard output is closed" in done.stderr


def test_a_closed_standard_error_leaves_the_results_as_they_are() -> None:
    assert shell(f"{SHOW} 2>&-").stdout == shell(SHOW).stdout


def test_a_file_is_written_with_the_folders_on_its_way_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deeper" / "out.txt"
    check_file(path)
    assert not (tmp_path / "new").exists()  # looking makes nothing
    put(path, b"one")
    put(path, b"two")
    assert path.read_bytes() == b"two"
    assert [item.name for item in path.parent.iterdir()] == ["out.txt"]


def test_a_link_stays_one_and_a_device_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    put(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    put(Path("/dev/null"), b"new")
    assert not Path("/dev/null").is_file()


def test_a_place_that_cannot_be_is_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    for check in (check_file, check_place):
        with pytest.raises(InputError, match=r"file is a file, not a folder"):
            check(tmp_path / "file" / "out.txt")
    with pytest.raises(InputError, match="is a folder"):
        check_file(tmp_path)
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DiskError, match="may not be written"):
            check_file(tmp_path / "out.txt")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_file_that_a_disk_will_not_take_is_a_full_disk() -> None:
    with pytest.raises(DiskError, match="the disk is full"):
        put(Path("/dev/full"), b"much")
