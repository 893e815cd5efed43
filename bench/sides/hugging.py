"""Hugging Face transformers, as its documentation says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bench.harness import serve
from bench.sides.work import draw_rows, rate, slice_rows

PAD, BEGIN, END = 0, 2, 3


def pad_rows(rows: list[list[int]]) -> tuple[Any, Any]:
    """Tokens and which of them are real."""
    import torch

    longest = max(map(len, rows))
    tokens = torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])
    real = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return tokens, real


def load_model(kind: str, settings: Mapping[str, Any]) -> Any:
    import torch
    import transformers

    torch.set_num_threads(settings["threads"])
    transformers.logging.set_verbosity_error()
    return getattr(transformers, kind).from_pretrained(settings["folder"], dtype=torch.float32).eval()


def translate(settings: Mapping[str, Any]) -> Callable[[], float]:
    import torch

    model, steps = load_model("AutoModelForSeq2SeqLM", settings), settings["steps"]
    batches = [pad_rows(rows) for rows in slice_rows(draw_rows(settings), settings["batch"])]
    told = {"decoder_start_token_id": BEGIN, "pad_token_id": PAD, "eos_token_id": END, "do_sample": False}
    told |= {"min_new_tokens": steps, "max_new_tokens": steps, "num_beams": settings["beam"]}

    @torch.inference_mode()
    def work() -> int:
        count = 0
        for tokens, real in batches:
            found = model.generate(tokens, attention_mask=real, **told)
            assert found.shape[1] == steps + 1, "another length than the others have"
            count += steps * len(found)
        return count

    return rate(work, settings)


def write(settings: Mapping[str, Any]) -> Callable[[], float]:
    import torch

    model, steps = load_model("AutoModelForCausalLM", settings), settings["steps"]
    prompts = torch.tensor(draw_rows(settings))
    told = {"min_new_tokens": steps, "max_new_tokens": steps, "do_sample": False, "pad_token_id": PAD}

    @torch.inference_mode()
    def work() -> int:
        found = model.generate(prompts, attention_mask=torch.ones_like(prompts), **told)
        assert found.shape[1] == prompts.shape[1] + steps, "another length than the others have"
        return int(steps * len(found))

    return rate(work, settings)


def prefill(settings: Mapping[str, Any]) -> Callable[[], float]:
    import torch

    model = load_model("AutoModelForCausalLM", settings)
    prompts = torch.tensor(draw_rows(settings))
    told = {"min_new_tokens": 1, "max_new_tokens": 1, "do_sample": False, "pad_token_id": PAD}

    @torch.inference_mode()
    def work() -> int:
        model.generate(prompts, attention_mask=torch.ones_like(prompts), **told)
        return int(prompts.numel())

    return rate(work, settings)


def scan(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Tokens a second through its Mamba mixer and back, by the path that needs no CUDA."""
    import torch
    from transformers import MambaConfig
    from transformers.models.mamba.modeling_mamba import MambaMixer

    torch.set_num_threads(settings["threads"])
    torch.manual_seed(1)
    mixer = MambaMixer(MambaConfig(hidden_size=settings["width"], num_hidden_layers=1), layer_idx=0)
    x = torch.randn(settings["batch"], settings["time"], settings["width"], requires_grad=True)

    def work() -> int:
        mixer(x).sum().backward()  # without CUDA it has no other path than the slow one
        return int(x[..., 0].numel())

    return rate(work, settings)


if __name__ == "__main__":
    serve({"translate": translate, "write": write, "prefill": prefill, "scan": scan}, "torch", "transformers")
