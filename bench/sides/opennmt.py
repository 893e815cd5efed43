"""Eole, OpenNMT's successor: its own trainer, on files that are cut into tokens already; its log says the speed."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.harness import read_speed, serve


def describe_run(settings: Mapping[str, Any], place: Path) -> dict[str, Any]:
    folder, words = Path(settings["folder"]), str(Path(settings["folder"]) / "counts.txt")

    def pair(split: str) -> dict[str, Any]:
        return {"path_src": str(folder / f"{split}.source"), "path_tgt": str(folder / f"{split}.target")}

    sizes = {"layers": settings["depth"], "heads": settings["heads"], "transformer_ff": settings["hidden"]}
    positions = {"word_vec_size": settings["width"], "position_encoding_type": "SinusoidalInterleaved"}
    return {
        **{"src_vocab": words, "tgt_vocab": words, "share_vocab": True, "n_sample": 0, "seed": 1},
        **{"src_vocab_size": settings["vocabulary"], "tgt_vocab_size": settings["vocabulary"]},
        **{"save_data": str(place / "data"), "overwrite": True, "report_every": settings["every"]},
        **{"data": {"corpus_1": {**pair("train"), "weight": 1}, "valid": pair("valid")}, "transforms": []},
        "training": {
            **{"world_size": 0, "gpu_ranks": [], "num_workers": 0, "compute_dtype": "fp32", "bucket_size": 30000},
            **{"batch_type": "tokens", "batch_size": settings["tokens"], "batch_size_multiple": 1, "accum_count": [1]},
            **{"optim": "adamw", "learning_rate": 0.001, "decay_method": "none", "max_grad_norm": 1.0},
            **{"dropout": [settings["dropout"]], "attention_dropout": [0.0], "label_smoothing": 0.1},
            **{"train_steps": settings["updates"], "valid_steps": 10**9, "save_checkpoint_steps": 10**9},
            **{"model_path": str(place / "model")},
        },
        "model": {
            **{"architecture": "transformer", "hidden_size": settings["width"], **sizes, "embeddings": positions},
            **{"share_embeddings": True, "share_decoder_embeddings": True},
        },
    }


def train(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Target tokens a second, by the reports after the first one."""
    import eole  # noqa: F401  what is missing is missing before anything is measured

    def measure() -> float:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "config.yaml"
            config.write_text(json.dumps(describe_run(settings, Path(folder))))  # JSON is YAML too
            command = [str(Path(sys.executable).parent / "eole"), "train", "-config", str(config)]
            return read_speed("Eole", command, r"/\s*([\d.]+) tok/s")

    return measure


if __name__ == "__main__":
    serve({"train": train}, "eole", "torch")
