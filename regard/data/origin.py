"""What came in with a model beside its weights: config, tokenizer files, generation config, chat template, licence.

It is kept with the model, through fine-tuning too, and goes out again with it, changed only where the model was. In a
checkpoint each file stands under a name of its own (`origin.1_Pooling--config.json`), so the manifest guards it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from regard.errors import CheckpointError

PREFIX, SLASH = "origin.", "--"
NAME = r"(\w+/)?[\w-]+(\.[\w-]+)*"  # that a manifest takes
LARGEST = 64 * 2**20  # bytes of one file
TERMS = ("LICENSE*", "LICENCE*", "NOTICE*", "USE_POLICY*")  # on which it may be used
KEPT = (
    *("config.json", "generation_config.json", "preprocessor_config.json", "chat_template.*"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "vocab.txt", "*.spm", "*.model"),
    *("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"),
    *("[0-9]_*/config.json", "[0-9]_*/model.safetensors"),  # the modules of sentence-transformers: 1_Pooling, 2_Dense
    *TERMS,
    "README.md",
)


@dataclass(frozen=True)
class Origin:
    """Files by their path within the folder that they came from, to the byte."""

    files: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Origin:
        """What a folder in Hugging Face layout holds beside its weights."""
        found = {}
        for path in sorted((*folder.glob("*"), *folder.glob("[0-9]_*/*"))):
            name = path.relative_to(folder).as_posix()
            kept = re.fullmatch(NAME, name) and any(fnmatchcase(name, pattern) for pattern in KEPT)
            if kept and path.is_file():
                found[name] = content_of(folder, name)
        return cls(found)

    @classmethod
    def recall(cls, names: Iterable[str], read: Callable[[str], bytes]) -> Origin | None:
        """From the files of a checkpoint; None where nothing came from elsewhere."""
        kept = {name: read(name) for name in names if name.startswith(PREFIX)}
        found = {name.removeprefix(PREFIX).replace(SLASH, "/"): content for name, content in kept.items()}
        return cls(found) if found else None

    def entries(self) -> dict[str, bytes]:
        """The same files as a checkpoint names them."""
        return {PREFIX + name.replace("/", SLASH): content for name, content in self.files.items()}

    def terms(self) -> dict[str, bytes]:
        """The licence and its kin, which go wherever the weights go."""
        return {name: self.files[name] for name in self.files if any(fnmatchcase(name, each) for each in TERMS)}

    def json(self, name: str) -> dict[str, Any]:
        """A file's JSON object; an empty one where there is no such file."""
        found = self._parsed(name, {})
        if not isinstance(found, dict):
            raise CheckpointError(f"{name}: not an object")
        return found

    def entries_of(self, name: str) -> list[dict[str, Any]]:
        """A file's JSON list of objects; an empty one where there is no such file."""
        found = self._parsed(name, [])
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise CheckpointError(f"{name}: not a list of objects")
        return found

    def _parsed(self, name: str, otherwise: Any) -> Any:
        content = self.files.get(name)
        try:
            return otherwise if content is None else json.loads(content)
        except (ValueError, RecursionError):
            raise CheckpointError(f"{name}: not JSON") from None


def follow_link(folder: Path, name: str) -> Path:
    """A file of a folder in Hugging Face layout, which may be a link only as Hugging Face's own cache makes them.

    There `snapshots/COMMIT/NAME` leads to `blobs/DIGEST`, beside `snapshots`. Any other link is refused.
    """
    home, path = folder.resolve(), folder / name
    real = path.resolve()
    stores = [parent.parent / "blobs" for parent in home.parents if parent.name == "snapshots"]
    if real != home / name and real.parent not in stores:
        copied = f"cp -rL {shlex.quote(str(folder))} COPY"
        raise CheckpointError(f"{path}: a link to {real}, which isn't in the folder that it came in", copied)
    return path


def content_of(folder: Path, name: str) -> bytes:
    """A file's bytes, unless it is a link that leads elsewhere or absurdly large."""
    path = follow_link(folder, name)
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise CheckpointError(f"{path}: {size:,} bytes, and {LARGEST:,} are the most")
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
