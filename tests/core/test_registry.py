"""Registries: kinds wait in their files until somebody asks for them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

import regard.lab
import regard.runs.convert  # noqa: F401  enters every role
from regard.core.registry import Kinds, find_kinds, import_folder
from regard.core.spec import Spec
from regard.runs.settings import list_pages


def list_folders(kind: type[Spec] = Spec) -> Iterator[tuple[type[Spec], str]]:
    if "kinds" in vars(kind) and kind.kinds.folder is not None:
        yield kind, kind.kinds.folder
    for below in kind.__subclasses__():
        yield from list_folders(below)


def test_sources_say_the_kinds_that_importing_them_gives() -> None:
    list_pages()  # imports everything
    roles = dict(list_folders())
    assert len(roles) > 12
    for role, folder in roles.items():
        said = find_kinds(folder)
        for kind, spec in role.kinds.items():
            if spec.__module__.startswith(f"{folder}."):
                assert spec.__module__ in said[kind], (role, kind)
            else:  # a kind of ours stands in its role's folder, or nobody finds it
                assert not spec.__module__.startswith("regard."), (role, kind)


@pytest.mark.parametrize("folder", sorted({folder for _, folder in list_folders()}))
def test_a_folder_can_be_imported_twice(folder: str) -> None:
    import_folder(folder)
    import_folder(folder)


def test_asking_for_a_kind_imports_its_file_and_listing_imports_all() -> None:
    code = (
        "import sys\nfrom regard.core.mixer import MixerSpec\n"
        "def there(): return sorted(name[14:] for name in sys.modules if name.startswith('regard.mixers.'))\n"
        "assert not there()\nassert 'nothing' not in MixerSpec.kinds\nassert not there()\n"
        "MixerSpec.kinds['pool']\nprint(*there())\nprint(len(there()) < len(MixerSpec.kinds) == len(there()))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["pool", "True"]


def test_a_kind_that_waits_in_its_file_cannot_be_taken() -> None:
    code = (
        "from typing import Literal\nfrom regard.core.mixer import MixerSpec\n"
        "class Mine(MixerSpec):\n    kind: Literal['attention'] = 'attention'"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "kind 'attention' is taken by regard.mixers.attention.Attention" in done.stderr


def test_kinds_without_a_folder_are_those_that_entered() -> None:
    kinds: Kinds[int] = Kinds()
    kinds["one"] = 1
    assert dict(kinds) == {"one": 1}
    assert "two" not in kinds
    with pytest.raises(KeyError):
        del kinds["two"]
