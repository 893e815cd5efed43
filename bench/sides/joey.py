"""JoeyNMT: its own trainer, on files that are cut into tokens already; the speed is what its log says.

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
        feeding = {"attention": "luong", "input_feeding": settings["feed"], "init_hidden": "last"}
        decoder = {**cell, "hidden_size": width, **feeding}
    sides = {"encoder": {**encoder, "embeddings": words}, "decoder": {**decoder, "embeddings": words}}
    return {"tied_embeddings": True, "tied_softmax": True, **sides}


def describe_run(settings: Mapping[str, Any], place: Path) -> dict[str, Any]:
    folder, rate = Path(settings["folder"]), settings.get("rate", 0.001)
    language = {"level": "word", "max_length": 200, "voc_file": str(folder / "vocabulary.txt")}
    data = {"train": str(folder / "train"), "dev": str(folder / "valid"), "dataset_type": "plain"}
    training = {
        **{"optimizer": "adamw", "learning_rate": rate, "batch_type": "token", "batch_size": settings["tokens"]},
        **{"adam_betas": settings.get("betas", [0.9, 0.999]), "weight_decay": settings.get("decay", 0.0)},
        **{"normalization": "tokens", "learning_rate_min": 0.0},
        **{"loss": "crossentropy", "label_smoothing": 0.1, "clip_grad_norm": 1.0, "epochs": 1000},
        **{
            "updates": settings["updates"],
            "logging_freq": settings["every"],
            "validation_freq": 10**6 * settings["every"],
        },
        **{"overwrite": True, "shuffle": True, "early_stopping_metric": "loss"},
        # its plateau passes a word that torch no longer knows, and it insists on a schedule
        **{"scheduling": "warmupinversesquareroot", "learning_rate_peak": rate},
        **{"learning_rate_warmup": settings.get("warmup", 100)},
    }
    return {
        **{"name": "bench", "joeynmt_version": "2.3.0", "model_dir": str(place), "use_cuda": False},
        "random_seed": settings.get("seed", 1),
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


class Finished(Exception):
    """All points were passed."""


def learn(settings: Mapping[str, Any]) -> Callable[[], float]:
    """The validation loss after so many target tokens, one point after the other."""
    import joeynmt.training as module
    import torch
    from joeynmt.__main__ import main
    from joeynmt.loss import XentLoss

    found: list[float] = []

    class Watched(module.TrainManager):  # type: ignore[misc]
        def train_and_validate(self, train_data: Any, valid_data: Any) -> None:
            self.kept = valid_data
            super().train_and_validate(train_data, valid_data)

        def _train_step(self, batch: Any) -> Any:
            while len(found) < len(settings["points"]) and self.stats.total_tokens >= settings["points"][len(found)]:
                found.append(self.measure())
            if len(found) == len(settings["points"]):
                raise Finished
            return super()._train_step(batch)

        @torch.no_grad()
        def measure(self) -> float:
            """Nats a target token, without smoothing."""
            model, told = self.model.eval(), {"pad_index": self.model.pad_index, "eos_index": self.model.eos_index}
            smoothed, model._loss_function = model._loss_function, XentLoss(model.pad_index)
            total = tokens = 0.0
            for batch in self.kept.make_iter(batch_size=64, device=self.device, **told):
                batch.sort_by_src_length()
                total += float(model(return_type="loss", **vars(batch))[0])
                tokens += float(batch.ntokens)
            model._loss_function = smoothed
            return total / tokens

    def train_once() -> list[float]:
        found.clear()
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "config.yaml"
            config.write_text(json.dumps(describe_run(settings, Path(folder) / "model")))
            sys.argv, module.TrainManager = ["joeynmt", "train", str(config), "--skip-test"], Watched
            try:
                main()
            except Finished:
                return list(found)
        raise Missing("JoeyNMT ended before it had seen so many tokens")

    return tell_in_turn(train_once)


if __name__ == "__main__":
    serve({"train": train, "learn": learn}, "joeynmt", "torch")
