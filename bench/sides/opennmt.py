"""Eole, OpenNMT's successor: its own trainer, on files that are cut into tokens already; its log says the speed.

For losses its trainer is looked at between two of its steps: what it logs by itself has smoothing in it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.harness import Missing, read_speed, serve
from bench.sides.work import tell_in_turn


def describe_rate(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same rates as ours: its own formula has the width in it (Vaswani et al. 2017)."""
    if "warmup" not in settings:
        return {"learning_rate": 0.001, "decay_method": "none"}
    peak = settings["rate"] * (settings["width"] * settings["warmup"]) ** 0.5
    betas = dict(zip(("adam_beta1", "adam_beta2"), settings["betas"], strict=True))
    shape = {"decay_method": "noam", "warmup_steps": settings["warmup"]}
    return {"learning_rate": peak, **shape, **betas, "weight_decay": settings["decay"]}


def describe_run(settings: Mapping[str, Any], place: Path) -> dict[str, Any]:
    folder, words = Path(settings["folder"]), str(Path(settings["folder"]) / "counts.txt")

    def pair(split: str) -> dict[str, Any]:
        return {"path_src": str(folder / f"{split}.source"), "path_tgt": str(folder / f"{split}.target")}

    sizes = {"layers": settings["depth"], "heads": settings["heads"], "transformer_ff": settings["hidden"]}
    positions = {"word_vec_size": settings["width"], "position_encoding_type": "SinusoidalInterleaved"}
    return {
        **{"src_vocab": words, "tgt_vocab": words, "share_vocab": True, "n_sample": 0},
        "seed": settings.get("seed", 1),
        **{"src_vocab_size": settings["vocabulary"], "tgt_vocab_size": settings["vocabulary"]},
        **{"save_data": str(place / "data"), "overwrite": True, "report_every": settings["every"]},
        **{"data": {"corpus_1": {**pair("train"), "weight": 1}, "valid": pair("valid")}, "transforms": []},
        "training": {
            **{"world_size": 0, "gpu_ranks": [], "num_workers": 0, "compute_dtype": "fp32", "bucket_size": 30000},
            **{"batch_type": "tokens", "batch_size": settings["tokens"], "batch_size_multiple": 1, "accum_count": [1]},
            **{"optim": "adamw", **describe_rate(settings), "max_grad_norm": 1.0, "normalization": "tokens"},
            **{"dropout": [settings["dropout"]], "attention_dropout": [0.0], "label_smoothing": 0.1},
            **{"train_steps": settings["updates"], "valid_steps": 10**9, "save_checkpoint_steps": 10**9},
            # as its recipes for Transformers say; by itself it draws norms around 0 too, and hardly learns at first
            **{"model_path": str(place / "model"), "param_init_method": "xavier_uniform"},
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


class Finished(Exception):
    """All points were passed."""


def learn(settings: Mapping[str, Any]) -> Callable[[], float]:
    """The validation loss after so many target tokens, one point after the other."""
    import eole.trainer as module
    from eole.bin.main import main
    from torch import nn

    found: list[float] = []

    class Watched(module.Trainer):  # type: ignore[misc]
        def train(self, *given: Any, valid_iter: Any = None, **told: Any) -> Any:
            self.kept, self.tokens = valid_iter, 0
            pad = self.valid_loss.criterion.ignore_index
            self.valid_loss.criterion = nn.CrossEntropyLoss(ignore_index=pad, reduction="sum")
            return super().train(*given, valid_iter=valid_iter, **told)

        def _train_step(self, batches: Any, *given: Any, **told: Any) -> None:
            super()._train_step(batches, *given, **told)
            pad = self.valid_loss.criterion.ignore_index
            self.tokens += sum(int(batch["tgt"][:, 1:].ne(pad).sum()) for batch in batches)
            while len(found) < len(settings["points"]) and self.tokens >= settings["points"][len(found)]:
                found.append(self.validate(self.kept).xent())
            if len(found) == len(settings["points"]):
                raise Finished

    def train_once() -> list[float]:
        found.clear()
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "config.yaml"
            config.write_text(json.dumps(describe_run(settings, Path(folder))))
            sys.argv, module.Trainer = ["eole", "train", "-config", str(config)], Watched
            try:
                main()
            except Finished:
                return list(found)
        raise Missing("Eole ended before it had seen so many tokens")

    return tell_in_turn(train_once)


if __name__ == "__main__":
    serve({"train": train, "learn": learn}, "eole", "torch")
