"""Every family in Hugging Face layout against transformers: tiny random models, several configs each."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file
from torch import Tensor

from regard.core.model import Model
from regard.core.weights import redraw
from regard.hub.check import largest_difference, masks
from regard.hub.load import Imported, import_folder
from regard.hub.save import export_folder, match_layouts, tensors_of
from regard.runs.results import record
from tests.hub.test_load import OURS

VOCABULARY = 97  # odd on purpose
CLOSE = 1e-4
LLAMA: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "max_position_embeddings": 128,
}
GPT: dict[str, Any] = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128}
BERT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 64,
}
NEO: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_layers": 4,
    "num_heads": 4,
    "max_position_embeddings": 128,
    "attention_types": [[["global", "local"], 2]],
    "window_size": 6,
}
MODERN: dict[str, Any] = {**BERT, "num_hidden_layers": 4, "local_attention": 8, "pad_token_id": 0}
DEEPSEEK: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "n_routed_experts": 12,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "qk_nope_head_dim": 16,
    "n_group": 4,
    "topk_group": 2,
    "num_experts_per_tok": 3,
    "first_k_dense_replace": 1,
    "n_shared_experts": 2,
    "max_position_embeddings": 256,
    "num_mtp_layers": 0,
}
MAMBA: dict[str, Any] = {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 3}
T5: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 64,
    "d_kv": 12,
    "d_ff": 96,
    "num_layers": 3,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
MARIAN: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "decoder_vocab_size": VOCABULARY,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "max_position_embeddings": 128,
    "scale_embedding": True,
    "activation_function": "swish",
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
}
VIT: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "image_size": 12,
    "patch_size": 4,
    "num_labels": 7,
}


def rope(kind: str, **settings: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **settings}}


YARN = {"factor": 4.0, "original_max_position_embeddings": 32}
# the class that transformers makes, its config's class, and what the config says
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT),
    "gpt2 relu, odd inner": ("GPT2LMHeadModel", "GPT2Config", {**GPT, "n_inner": 100, "activation_function": "relu"}),
    "gpt2 untied": ("GPT2LMHeadModel", "GPT2Config", {**GPT, "tie_word_embeddings": False}),
    "openai-gpt": ("OpenAIGPTLMHeadModel", "OpenAIGPTConfig", GPT),
    "openai-gpt one layer": ("OpenAIGPTLMHeadModel", "OpenAIGPTConfig", {**GPT, "n_layer": 1, "n_head": 2}),
    "gpt_neo": ("GPTNeoForCausalLM", "GPTNeoConfig", NEO),
    "gpt_neo global": ("GPTNeoForCausalLM", "GPTNeoConfig", {**NEO, "attention_types": [[["global"], 4]]}),
    "bert": ("BertModel", "BertConfig", BERT),
    "bert masking": ("BertForMaskedLM", "BertConfig", BERT),
    "bert one segment": ("BertForMaskedLM", "BertConfig", {**BERT, "type_vocab_size": 1, "hidden_act": "relu"}),
    "bert classes": ("BertForSequenceClassification", "BertConfig", {**BERT, "num_labels": 5}),
    "bert tags": ("BertForTokenClassification", "BertConfig", {**BERT, "num_labels": 9}),
    "modernbert": ("ModernBertModel", "ModernBertConfig", MODERN),
    "modernbert masking": ("ModernBertForMaskedLM", "ModernBertConfig", {**MODERN, "global_attn_every_n_layers": 2}),
    "modernbert head of its own": (
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        {**MODERN, "classifier_activation": "relu", "hidden_activation": "silu"},
    ),
    "modernbert classes": ("ModernBertForSequenceClassification", "ModernBertConfig", {**MODERN, "num_labels": 5}),
    "modernbert classes of the mean": (
        "ModernBertForSequenceClassification",
        "ModernBertConfig",
        {**MODERN, "num_labels": 3, "classifier_pooling": "mean", "classifier_activation": "silu"},
    ),
    "modernbert tags": ("ModernBertForTokenClassification", "ModernBertConfig", {**MODERN, "num_labels": 9}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", LLAMA),
    "llama tied, one key head": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**LLAMA, "num_key_value_heads": 1, "tie_word_embeddings": True, "attention_bias": True},
    ),
    "llama wide heads": ("LlamaForCausalLM", "LlamaConfig", {**LLAMA, "head_dim": 16}),
    "llama linear": ("LlamaForCausalLM", "LlamaConfig", {**LLAMA, **rope("linear", factor=4.0)}),
    "llama dynamic": ("LlamaForCausalLM", "LlamaConfig", {**LLAMA, **rope("dynamic", factor=3.0)}),
    "llama yarn": ("LlamaForCausalLM", "LlamaConfig", {**LLAMA, **rope("yarn", **YARN)}),
    "llama llama3": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**LLAMA, **rope("llama3", **YARN, low_freq_factor=1.0, high_freq_factor=4.0)},
    ),
    "mistral window": ("MistralForCausalLM", "MistralConfig", {**LLAMA, "sliding_window": 6}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**LLAMA, "sliding_window": None}),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {**LLAMA, "num_local_experts": 6}),
    "mixtral top 3": (
        "MixtralForCausalLM",
        "MixtralConfig",
        {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 3, "sliding_window": 7},
    ),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", LLAMA),
    "qwen2 tied": ("Qwen2ForCausalLM", "Qwen2Config", {**LLAMA, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**LLAMA, "head_dim": 16}),
    "qwen3 bias": ("Qwen3ForCausalLM", "Qwen3Config", {**LLAMA, "head_dim": 8, "attention_bias": True}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", "DeepseekV3Config", DEEPSEEK),
    "deepseek_v3 halves": ("DeepseekV3ForCausalLM", "DeepseekV3Config", {**DEEPSEEK, "rope_interleave": False}),
    "deepseek_v3 plain queries": ("DeepseekV3ForCausalLM", "DeepseekV3Config", {**DEEPSEEK, "q_lora_rank": None}),
    "deepseek_v3 yarn": (
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        {**DEEPSEEK, **rope("yarn", **YARN, mscale=0.7, mscale_all_dim=1.1)},
    ),
    "mamba": ("MambaForCausalLM", "MambaConfig", MAMBA),
    "mamba small": (
        "MambaForCausalLM",
        "MambaConfig",
        {**MAMBA, "state_size": 8, "conv_kernel": 3, "time_step_rank": 5, "tie_word_embeddings": False},
    ),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5),
    "t5 gated, few buckets": (
        "T5ForConditionalGeneration",
        "T5Config",
        {**T5, "feed_forward_proj": "gated-gelu", "relative_attention_num_buckets": 8, "num_decoder_layers": 2},
    ),
    "marian": ("MarianMTModel", "MarianConfig", MARIAN),
    "marian relu": ("MarianMTModel", "MarianConfig", {**MARIAN, "activation_function": "relu", "decoder_layers": 1}),
    "pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", MARIAN),
    "pegasus relu": (
        "PegasusForConditionalGeneration",
        "PegasusConfig",
        {**MARIAN, "activation_function": "relu", "encoder_layers": 1},
    ),
    "vit": ("ViTForImageClassification", "ViTConfig", VIT),
    "vit wide": ("ViTForImageClassification", "ViTConfig", {**VIT, "image_size": [8, 16]}),
    "vit gray": ("ViTForImageClassification", "ViTConfig", {**VIT, "num_channels": 1, "patch_size": 3}),
    "deit": ("DeiTForImageClassificationWithTeacher", "DeiTConfig", VIT),
    "deit one head": ("DeiTForImageClassification", "DeiTConfig", {**VIT, "num_channels": 1, "hidden_act": "relu"}),
}


KINDS: dict[str, list[str]] = {}  # cases by model type
for _name in CASES:
    KINDS.setdefault(_name.split(" ")[0], []).append(_name)
PAGE = Path(__file__).parents[2] / "docs" / "checkpoints.md"
SENTENCEPIECE = "`tokenizer.json`, `tokenizer.model`"
TOKENIZERS = {
    "gpt2": "`tokenizer.json`, `vocab.json` + `merges.txt`",
    "openai-gpt": "`tokenizer.json`, `vocab.json` + `merges.txt`",
    "bert": "`tokenizer.json`, `vocab.txt`",
    "llama": SENTENCEPIECE,
    "mistral": SENTENCEPIECE,
    "mixtral": SENTENCEPIECE,
    "t5": "`tokenizer.json`, `spiece.model`",
    "marian": "`tokenizer.json`, `source.spm` + `target.spm` + `vocab.json`",
    "vit": "–",
    "deit": "–",
}


def made(case: str, folder: Path) -> Any:
    """A random model of transformers, away from its start, saved to a folder."""
    kind, config, settings = CASES[case]
    torch.manual_seed(1)
    model = getattr(hf, kind)(getattr(hf, config)(**settings)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:
                weight.add_(torch.randn_like(weight) * (0.2 if weight.dim() == 1 else 0.7 * weight.shape[-1] ** -0.5))
        for name, buffer in model.named_buffers():
            if "correction" in name or name == "final_logits_bias":
                buffer.add_(torch.randn_like(buffer) * 0.2)
    model.save_pretrained(folder)
    return model


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, Imported]:
    folder = tmp_path_factory.mktemp("hub") / "theirs"
    theirs = made(request.param, folder)
    return theirs, folder, import_folder(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_agree_with_pads_on_either_side(kind: str, tmp_path: Path) -> None:
    """And the largest difference of the family goes to the page of checkpoints."""
    worst = 0.0
    for name in KINDS[kind]:
        folder = tmp_path / name
        made(name, folder)
        found = import_folder(folder)
        assert all("embed_positions" in unused for unused in found.unused)  # sinusoids, which are computed here
        gap = largest_difference(folder, found)
        assert gap <= CLOSE, name
        worst = max(worst, gap)
    family = found.plan.family
    row = {
        "model type": f"`{kind}`",
        "presets": ", ".join(name for name in family.presets if name not in OURS),
        "classes": ", ".join(found.plan.layout.heads),
        "tokenizers": TOKENIZERS.get(kind, "`tokenizer.json`"),
        "configs compared": str(len(KINDS[kind])),
        "largest difference": f"{worst:.1e}",
    }
    with (PAGE.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        record(PAGE, "Families", row)


def test_what_goes_out_is_what_came_in(case: tuple[Any, Path, Imported], tmp_path: Path) -> None:
    _, folder, found = case
    there = load_file(folder / "model.safetensors")
    back = tensors_of(found.plan, found.model)
    assert {name: tuple(tensor.shape) for name, tensor in back.items()} == {
        name: tuple(tensor.shape) for name, tensor in there.items() if "embed_positions" not in name
    }
    assert all(torch.equal(there[name], tensor) for name, tensor in back.items())
    again = tmp_path / "ours"
    export_folder(match_layouts(found.plan.family, found.plan.settings, "it"), found.model, again)
    assert largest_difference(again, import_folder(again)) <= CLOSE


@torch.no_grad()
def test_greedy_generation_is_the_same(case: tuple[Any, Path, Imported]) -> None:
    theirs, _, found = case
    ours = found.model
    if ours.decoder is None:
        pytest.skip("an encoder generates nothing")
    theirs.generation_config.eos_token_id = None
    theirs.generation_config.pad_token_id = 0
    prompt = torch.randint(3, VOCABULARY, (2, 7), generator=torch.Generator().manual_seed(5))
    mask = masks(prompt)["left" if ours.encoder is None else "right"]
    words = {"attention_mask": mask.long(), "max_new_tokens": 64, "min_new_tokens": 64, "do_sample": False}
    expected = theirs.generate(input_ids=prompt.masked_fill(~mask, 0), **words)
    assert torch.equal(generated(ours, prompt, mask, expected), expected[:, -64:])


def generated(ours: Model, prompt: Tensor, mask: Tensor, expected: Tensor) -> Tensor:
    """64 tokens by our state, one step each."""
    if ours.encoder is None:
        state = ours.start(2)
        scores = ours.step(prompt, state, valid=mask)
    else:
        state = ours.start(2, ours.encode(prompt, mask))
        scores = ours.step(expected[:, 0], state)
    found = [scores.argmax(-1)]
    while len(found) < 64:
        found.append(ours.step(found[-1], state).argmax(-1))
    return torch.stack(found, 1)


@torch.no_grad()
@pytest.mark.parametrize("name", ["vit", "deit"])
def test_other_sizes_of_pictures_are_interpolated_as_theirs(name: str, tmp_path: Path) -> None:
    theirs = made(name, tmp_path / "theirs")
    ours = import_folder(tmp_path / "theirs").model
    for height, width in ((12, 12), (20, 20), (8, 24), (16, 4)):
        pictures = torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(3))
        expected = theirs(pixel_values=pictures, interpolate_pos_encoding=True).logits
        torch.testing.assert_close(redraw(ours, height, width)(pictures), expected, atol=CLOSE, rtol=0)
