"""JoeyNMT: its own trainer, on files that are cut into tokens already; the speed is what its log says."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.harness import read_speed, serve


def describe_model(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same sizes as ours, in its words."""
    width, dropout = settings["width"], settings["dropout"]
    words = {"embedding_dim": width, "scale": settings["kind"] == "transformer", "dropout": dropout}
    if settings["kind"] == "transformer":
        sizes = {"num_layers": settings["depth"], "num_heads": settings["heads"], "ff_size": settings["hidden"]}
        both = {"type": "transformer", **sizes, "hidden_size": width, "dropout": dropout, "layer_norm": "pre"}
        encoder, decoder = both, dict(both)
    else:
        cell = {"type": "recurrent", "rnn_type": "lstm", "num_layers": 1, "dropout": dropout}
        # an encoder that reads both ways has half of the width for each
        encoder = {**cell, "hidden_size": width // 2, "bidirectional": True}
        feeding = {"attention": "luong", "input_feeding": settings["feed"], "init_hidden": "bridge"}
        decoder = {**cell, "hidden_size": width, **feeding}
    sides = {"encoder": {**encoder, "embeddings": words}, "decoder": {**decoder, "embeddings": words}}
    return {"tied_embeddings": True, "tied_softmax": True, **sides}


def describe_run(settings: Mapping[str, Any], place: Path) -> dict[str, Any]:
    folder = Path(settings["folder"])
    language = {"level": "word", "max_length": 200, "voc_file": str(folder / "vocabulary.txt")}
    data = {"train": str(folder / "train"), "dev": str(folder / "valid"), "dataset_type": "plain"}
    training = {
        **{"optimizer": "adamw", "learning_rate": 0.001, "batch_type": "token", "batch_size": settings["tokens"]},
        **{"loss": "crossentropy", "label_smoothing": 0.1, "clip_grad_norm": 1.0, "epochs": 1000},
        **{
            "updates": settings["updates"],
            "logging_freq": settings["every"],
            "validation_freq": 10**6 * settings["every"],
        },
        **{"overwrite": True, "shuffle": True, "early_stopping_metric": "loss"},
        # its plateau passes a word that torch no longer knows, and it insists on a schedule
        **{"scheduling": "warmupinversesquareroot", "learning_rate_warmup": 100, "learning_rate_peak": 0.001},
    }
    return {
        **{"name": "bench", "joeynmt_version": "2.3.0", "model_dir": str(place), "use_cuda": False, "random_seed": 1},
        **{"data": {**data, "src": {"lang": "source", **language}, "trg": {"lang": "target", **language}}},
        **{"training": training, "testing": {"eval_metrics": []}, "model": describe_model(settings)},
    }


def train(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Target tokens a second, by the reports after the first one."""
    import joeynmt.training  # noqa: F401  what is missing is missing before anything is measured

    def measure() -> float:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "config.yaml"
            config.write_text(json.dumps(describe_run(settings, Path(folder) / "model")))  # JSON is YAML too
            command = [sys.executable, "-m", "joeynmt", "train", str(config), "--skip-test"]
            return read_speed("JoeyNMT", command, r"Tokens per Sec:\s*([\d.]+)")

    return measure


if __name__ == "__main__":
    serve({"train": train}, "joeynmt", "torch")
