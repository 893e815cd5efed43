"""llama.cpp with weights of 8 bits (q8_0), through its own C functions in llama-cpp-python.

The same random weights come to it from the folder in Hugging Face layout, by the `gguf` package of its authors.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.harness import Missing, serve
from bench.sides.work import draw_rows, rate

# GPT-2's tensors there and here; their matrices are stored the other way round in Hugging Face's layout
TOP = {"wte.weight": "token_embd.weight", "wpe.weight": "position_embd.weight"}
TOP |= {f"ln_f.{kind}": f"output_norm.{kind}" for kind in ("weight", "bias")}
INNER = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm"}
INNER |= {"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}


def rename(name: str) -> str:
    """A tensor's name in a GGUF file."""
    name = name.removeprefix("transformer.")
    if name in TOP:
        return TOP[name]
    _, layer, rest = name.split(".", 2)
    stem, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{INNER[stem]}.{kind}"


def write_gguf(folder: Path, path: Path) -> None:
    """A GPT-2 folder as one file, its matrices in blocks of 32 with a scale each."""
    import gguf
    from safetensors.numpy import load_file

    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(str(path), "gpt2")
    writer.add_block_count(config["n_layer"])
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(config.get("n_inner") or 4 * config["n_embd"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    eight = gguf.GGMLQuantizationType.Q8_0
    for name, tensor in load_file(folder / "model.safetensors").items():
        if name == "lm_head.weight":
            continue  # the table of tokens, a second time
        new = rename(name)
        turned = tensor.T.copy() if tensor.ndim == 2 and new.startswith("blk.") else tensor
        if tensor.ndim == 2 and new != "position_embd.weight":
            writer.add_tensor(new, gguf.quants.quantize(turned, eight), raw_dtype=eight)
        else:
            writer.add_tensor(new, turned)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Session:
    """A model and a context for some rows that are stepped together."""

    def __init__(self, path: Path, rows: int, positions: int, threads: int) -> None:
        import llama_cpp

        self.library: Any = llama_cpp
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise Missing("llama.cpp doesn't load the file that was written for it")
        told = llama_cpp.llama_context_default_params()
        told.n_ctx, told.n_seq_max = rows * positions, rows
        told.n_batch = told.n_ubatch = rows * positions
        told.n_threads = told.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, told)
        if not self.context:
            raise Missing("llama.cpp has no context for so many rows and positions")
        self.batch = llama_cpp.llama_batch_init(rows * positions, 0, 1)
        self.words = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def forget(self) -> None:
        self.library.llama_memory_clear(self.library.llama_get_memory(self.context), True)

    def read(self, rows: list[list[int]], first: int) -> list[int]:
        """Read tokens of each row from a position on; the best next token of each."""
        import numpy as np

        batch, count, last = self.batch, 0, []
        for row, tokens in enumerate(rows):
            for place, token in enumerate(tokens, first):
                batch.token[count], batch.pos[count] = token, place
                batch.n_seq_id[count], batch.seq_id[count][0] = 1, row
                batch.logits[count] = place == first + len(tokens) - 1
                count += 1
            last.append(count - 1)
        batch.n_tokens = count
        if self.library.llama_decode(self.context, batch) != 0:
            raise Missing("llama.cpp couldn't decode a batch")
        scores = (self.library.llama_get_logits_ith(self.context, at) for at in last)
        return [int(np.ctypeslib.as_array(found, (self.words,)).argmax()) for found in scores]


def open_session(settings: Mapping[str, Any], positions: int) -> tuple[Session, list[list[int]]]:
    import llama_cpp  # noqa: F401  before anything is written

    rows = draw_rows(settings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        write_gguf(Path(settings["folder"]), path)
        return Session(path, len(rows), positions, settings["threads"]), rows


def write(settings: Mapping[str, Any]) -> Callable[[], float]:
    steps, prompt = settings["steps"], settings["longest"]
    session, rows = open_session(settings, prompt + steps)

    def work() -> int:
        session.forget()
        tokens = session.read(rows, 0)
        for step in range(steps - 1):
            tokens = session.read([[token] for token in tokens], prompt + step)
        return int(steps * len(rows))

    return rate(work, settings)


def prefill(settings: Mapping[str, Any]) -> Callable[[], float]:
    session, rows = open_session(settings, settings["longest"])

    def work() -> int:
        session.forget()
        session.read(rows, 0)
        return int(sum(map(len, rows)))

    return rate(work, settings)


if __name__ == "__main__":
    serve({"write": write, "prefill": prefill}, "llama-cpp-python")
