"""Folders from the Hugging Face hub: weights as safetensors, JSON, vocabularies, licences, and nothing that runs."""

from __future__ import annotations

import re
from pathlib import Path

from regard.data.origin import KEPT
from regard.errors import CheckpointError, MissingPackage, RegardError, SpecError

# the folder itself, and the modules of sentence-transformers: 1_Pooling, 2_Dense
WANTED = [*KEPT, "*.safetensors", "*.json"]
ELSEWHERE = ["*/*/*", "[!0-9]*/*"]


def fetch(name: str, folder: Path, endpoint: str | None = None) -> Path:
    """Download `owner/name` to a folder; what is there already isn't fetched again. `endpoint`: another hub."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name, re.ASCII) or ".." in name:
        raise SpecError(f"hf:{name}: a model is called owner/name", "hf:openai-community/gpt2")
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise MissingPackage("downloading", "huggingface_hub", "hub") from None
    instead = f"download it where there is a network (hf download {name} --local-dir DIR), then: regard import DIR"
    try:
        snapshot_download(name, local_dir=folder, allow_patterns=WANTED, ignore_patterns=ELSEWHERE, endpoint=endpoint)
    except LocalEntryNotFoundError:
        raise RegardError(f"hf:{name}: the hub can't be reached from here", instead) from None
    except HfHubHTTPError as error:
        raise CheckpointError(f"hf:{name}: the hub says: {error.server_message or error}", instead) from None
    except OSError as error:
        raise RegardError(f"hf:{name}: {error}", instead) from None
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"hf:{name}: there is no config.json in it", "another model")
    return folder
