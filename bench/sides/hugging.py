"""Hugging Face transformers, as its documentation says."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.harness import serve
from bench.sides.work import draw_rows, rate, slice_rows

PAD, BEGIN, END = 0, 2, 3
WARMUP = 5  # steps that don't count


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


def encode(settings: Mapping[str, Any]) -> Callable[[], float]:
    import torch

    model = load_model("AutoModel", settings)
    tokens = torch.tensor(draw_rows(settings))
    real = torch.ones_like(tokens)

    @torch.inference_mode()
    def work() -> int:
        model(tokens, attention_mask=real)
        return int(tokens.numel())

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


def train_language(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Tokens a second of nanoGPT's loop around its GPT-2, which has biases and is else of the same size."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(settings["threads"])
    text = Path(settings["corpus"], "input.txt").read_text(encoding="utf-8")
    letters = {letter: number for number, letter in enumerate(sorted(set(text)))}
    data, context, rows = torch.tensor([letters[letter] for letter in text]), settings["context"], settings["rows"]
    sizes = {"n_layer": settings["depth"], "n_head": settings["heads"], "n_embd": settings["width"]}
    drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), settings["dropout"])
    config = GPT2Config(vocab_size=len(letters), n_positions=context, **sizes, **drops)

    def measure() -> float:
        torch.manual_seed(1)
        model = GPT2LMHeadModel(config)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3, (0.9, 0.99))
        began, steps = 0.0, -WARMUP
        while steps < 1 or time.perf_counter() - began < settings["seconds"]:
            if steps == 0:
                began = time.perf_counter()
            places = torch.randint(len(data) - context, (rows,)).tolist()
            tokens = torch.stack([data[place : place + context] for place in places])
            targets = torch.stack([data[place + 1 : place + context + 1] for place in places])
            logits = model(tokens, use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            loss.item()
            steps += 1
        return float(steps * context * rows / (time.perf_counter() - began))

    return measure


JOBS = {
    "translate": translate,
    "write": write,
    "prefill": prefill,
    "encode": encode,
    "scan": scan,
    "train_language": train_language,
}

if __name__ == "__main__":
    serve(JOBS, "torch", "transformers")
