"""What an unknown word may have meant: a slip of the finger, or the word that others have for the same thing.

A hint that leads somewhere else is worse than none. So only near misses count as slips, and words that are known from
other toolkits are never compared by their letters: `hidden_size` is a width, however much of `hidden` is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# ours, and what others call it; with its place in a run file where it has one that every run file has
ELSEWHERE = {
    "model.width": "hidden_size d_model n_embd embed_dim embedding_dim hidden_dim model_dim emb_size dim",
    "model.depth": "layers n_layers num_layers n_layer nlayers num_hidden_layers num_blocks encoder_layers",
    "layers": "layers n_layers num_layers n_layer nlayers",  # of a recurrence
    "decoder_depth": "decoder_layers num_decoder_layers",
    "heads": "num_heads n_heads n_head nhead num_attention_heads attention_heads",
    "kv_heads": "num_key_value_heads n_kv_heads num_kv_heads",
    "size": "head_dim head_size d_head",
    "hidden": "intermediate_size d_ff ffn_dim dim_feedforward feedforward_dim n_inner",
    "context": "max_position_embeddings n_positions n_ctx max_seq_len max_seq_length block_size context_length seq_len",
    "activation": "hidden_act activation_function act",
    "window": "sliding_window",
    "base": "rope_theta rotary_base",
    "tied": "tie_word_embeddings tie_embeddings tie_weights",
    "experts": "num_experts n_experts num_local_experts n_routed_experts",
    "top": "num_experts_per_tok num_experts_per_token",
    "eps": "layer_norm_eps rms_norm_eps norm_eps layer_norm_epsilon",
    "dropout": "dropout_rate dropout_prob hidden_dropout_prob resid_pdrop p_dropout",
    "attention_dropout": "attention_probs_dropout_prob attn_pdrop attn_dropout",
    "tokenizer.vocabulary": "vocab_size vocabulary_size n_vocab num_tokens vocab",
    "batches.tokens": "batch_size batch tokens_per_batch max_tokens per_device_train_batch_size",
    "task.smoothing": "label_smoothing label_smoothing_factor",
    "task.search.beam": "beam_size num_beams beam_width",
    "train.steps": "max_steps total_steps num_steps train_steps num_train_steps max_iters iterations",
    "train.epochs": "num_epochs n_epochs max_epochs num_train_epochs",
    "train.accumulate": "gradient_accumulation_steps accumulation_steps grad_accum accumulate_grad_batches",
    "train.clip": "max_grad_norm grad_clip gradient_clip_val gradient_clip clip_norm clip_grad_norm",
    "train.evaluate": "eval_steps eval_interval eval_every evaluation_steps",
    "train.save": "save_steps save_interval save_every checkpoint_every",
    "train.keep": "save_total_limit keep_last",
    "train.ema": "ema_decay",
    "train.goal": "metric_for_best_model best_metric early_stopping_metric",
    "train.patience": "early_stopping early_stopping_patience",
    "train.recompute": "gradient_checkpointing activation_checkpointing",
    "train.precision": "bf16 mixed_precision dtype",
    "train.optimizer": "optim",
    "train.optimizer.rate": "learning_rate lr peak_lr max_lr",
    "train.optimizer.decay": "weight_decay wd",
    "train.schedule": "scheduler lr_scheduler lr_scheduler_type lr_schedule",
    "train.schedule.warmup": "warmup_steps num_warmup_steps warmup_ratio warmup_proportion warmup_iters",
    "epsilon": "adam_epsilon",
    "alpha": "lora_alpha",
    "rank": "lora_rank lora_r",
    "targets": "target_modules",
    "whole": "modules_to_save",
    "seed": "random_seed",
    "out": "output_dir out_dir save_dir",
    "data": "data_dir dataset data_path",
    "": "max_length min_length num_workers",  # of several things, so none
}
# settings that share a name with others: each is meant only where its neighbour stands too
BESIDE = {"tokens": "longest", "size": "heads", "rank": "targets", "alpha": "targets", "top": "experts"}
FOREIGN: dict[str, list[str]] = {}  # the same from the other side
for _ours, _words in ELSEWHERE.items():
    for _word in _words.split():
        FOREIGN.setdefault(_word, []).append(_ours)


def suggest(word: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: what it may have meant, or all that is known."""
    names = sorted(known)
    listed = f"; known: {', '.join(names)}"
    if not isinstance(word, str):
        return listed
    if word.lower() in FOREIGN:
        meant = next((place for ours in FOREIGN[word.lower()] if (place := reach(ours, names))), None)
        return f"; did you mean {meant!r}?" if meant else listed
    kin = [name for name in names if name.startswith(f"{word.lower()}-")]
    if len(kin) > 1:
        return f"; which one? {', '.join(kin)}"
    near = nearest(word, names)
    return f"; did you mean {near!r}?" if near else listed


def reach(ours: str, names: list[str]) -> str | None:
    """A setting as it is called from here: `train.optimizer.rate` is `optimizer.rate` among train's own."""
    parts = ours.split(".")
    for n, part in enumerate(parts):
        alone = n == len(parts) - 1
        if part in names and not (alone and BESIDE.get(part, part) not in names):
            return ".".join(parts[n:])
    return None


def nearest(word: str, names: list[str]) -> str | None:
    """The one known word that is a slip away; none where two are as near. Other digits are another thing: 7b, 8b."""
    word, most = word.lower(), 1 if len(word) < 7 else 2
    alike = [name for name in names if abs(len(name) - len(word)) <= most and digits(name) == digits(word)]
    ranked = sorted((slips(word, name.lower()), name) for name in alike)
    if not ranked or ranked[0][0] > most or (len(ranked) > 1 and ranked[0][0] == ranked[1][0]):
        return None
    return ranked[0][1]


def digits(word: str) -> str:
    """The digits of a word; one that was typed twice counts once."""
    return re.sub(r"(\d)\1+", r"\1", re.sub(r"\D", "", word))


def slips(one: str, other: str) -> int:
    """Letters lost, added or changed, and neighbours swapped, that turn one word into another (Damerau 1964)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
