"""What others call our settings, as data: one row for each of ours that goes by other names elsewhere.

A place is written as a run file has it (`train.optimizer.rate`); one that begins with a dot is of a part that may stand
anywhere in a model (`.mix.heads`). A word may be in several rows, and the first that the run at hand has a setting for
is meant. Our own words stand among the others where people look for them in other places: `epochs` belongs to `train`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OFF = {0: None}  # a number that says "none" elsewhere


@dataclass(frozen=True)
class Alias:
    """A setting of ours, and the words of others for it.

    `values`: ours for each of theirs; `closed`: it has no others. `form`: how assignments are written where there is
    more to them than `place=value`. `note`: why a value doesn't carry over, or what it does here. `beside`: a setting
    that must stand next to ours, where several things have ours.
    """

    place: str
    words: str
    values: Mapping[Any, Any] = field(default_factory=dict)
    closed: bool = False
    form: str = ""
    note: str = ""
    beside: str = ""


LAYERS = "layers n_layers num_layers n_layer nlayers num_hidden_layers num_blocks"
WIDTH = "hidden_size d_model n_embd embed_dim embedding_dim hidden_dim model_dim emb_size word_vec_size rnn_size dim"
HEADS = "num_heads n_heads n_head nhead num_attention_heads attention_heads encoder_attention_heads"
POSITIONS = "max_position_embeddings n_positions n_ctx max_seq_len max_seq_length block_size context_length seq_len"
POSITIONS += " max_source_positions max_target_positions"
HIDDEN = "intermediate_size d_ff ffn_dim dim_feedforward feedforward_dim n_inner ff_size transformer_ff encoder_ffn_dim"
EXPERTS = "num_experts n_experts num_local_experts n_routed_experts"
EPS = "layer_norm_eps rms_norm_eps norm_eps layer_norm_epsilon layernorm_eps"
DROP = "dropout_rate dropout_prob hidden_dropout_prob hidden_dropout resid_pdrop p_dropout embd_pdrop"
DROP_PATH = "drop_path_rate drop_path droppath stochastic_depth_rate layerdrop"
DROP_WEIGHTS = "attention_probs_dropout_prob attn_pdrop attn_dropout"
CELL = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn", "RNN_TANH": "rnn", "RNN_RELU": "relu", "elman": "rnn"}
CURVES = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu_fast": "gelu-tanh", "swish": "silu"}
CURVES |= {name: name for name in ("relu", "gelu", "silu", "tanh")}
ADAM = dict.fromkeys(("adamw", "adamw_torch", "adamw_torch_fused", "adamw_hf", "fusedadam"), "adamw")
SHAPES = {"linear": "linear", "cosine": "cosine", "constant": "constant", "constant_with_warmup": "constant"}
SHAPES |= {"inverse_sqrt": "inverse-root", "noam": "inverse-root", "warmup_stable_decay": "stable-decay"}
SHAPES |= {"reduce_lr_on_plateau": "plateau", "plateau": "plateau"}
PRECISIONS = {"bf16": "bf16", "bfloat16": "bf16", "fp32": "fp32", "float32": "fp32", "32": "fp32", 32: "fp32"}
PRECISIONS |= {"no": "fp32", False: "fp32", "bf16-mixed": "bf16"}  # YAML reads `no` as false

ROWS = (
    # a model's sizes
    Alias("model.width", WIDTH),
    Alias(".stack.width", WIDTH),
    Alias("model.depth", f"{LAYERS} encoder_layers enc_layers"),
    Alias(".stack.depth", LAYERS),
    Alias(".mix.layers", LAYERS),
    Alias("model.decoder_depth", "decoder_layers num_decoder_layers dec_layers"),
    Alias("model.heads", f"{HEADS} heads"),
    Alias(".mix.heads", HEADS),
    Alias("model.kv_heads", "num_key_value_heads n_kv_heads num_kv_heads n_head_kv"),
    Alias(".mix.kv_heads", "num_key_value_heads n_kv_heads num_kv_heads n_head_kv"),
    Alias("model.size", "head_dim head_size d_head", beside="kv_heads"),
    Alias("model.size", "head_dim d_kv", beside="buckets"),
    Alias(".mix.size", "head_dim head_size d_head", beside="kv_heads"),
    Alias("model.hidden", HIDDEN),
    Alias(".ffn.hidden", HIDDEN),
    Alias("tokenizer.vocabulary", "vocab_size vocabulary_size n_vocab num_tokens vocab src_vocab_size tgt_vocab_size"),
    Alias("model.vocabulary", "tgt_vocab_size target_vocab_size"),
    Alias("model.source_vocabulary", "src_vocab_size source_vocab_size"),
    Alias("model.vocabulary", "vocab_size vocabulary_size n_vocab num_tokens vocab ntoken"),
    Alias(".embedding.vocabulary", "vocab_size vocabulary_size n_vocab num_tokens vocab num_embeddings"),
    Alias("task.context", f"{POSITIONS} max_length max_len"),
    Alias("model.context", POSITIONS),
    Alias(".position.context", POSITIONS),
    # what a model is made of
    Alias(
        "model.activation", "hidden_act activation_function act hidden_activation activation_fn", CURVES, closed=True
    ),
    Alias(".ffn.activation", "hidden_act activation_function act hidden_activation activation_fn", CURVES, closed=True),
    Alias("model.cell", "rnn_type cell_type rnn_cell", CELL),
    Alias(".mix.cell", "rnn_type cell_type rnn_cell", CELL),
    Alias("model.both", "bidirectional brnn"),
    Alias("model.direction", "bidirectional brnn", {True: "both", False: "forward"}, closed=True),
    Alias(".mix.direction", "bidirectional brnn", {True: "both", False: "forward"}, closed=True),
    Alias("model.feed", "input_feed input_feeding"),
    Alias(
        "model.score", "global_attention", {"dot": "dot", "general": "multiplicative", "mlp": "additive"}, closed=True
    ),
    Alias("model.place", "norm_first pre_norm encoder_normalize_before", {True: "pre", False: "post"}, closed=True),
    Alias(".block.place", "norm_first pre_norm", {True: "pre", False: "post"}, closed=True),
    Alias("model.window", "sliding_window"),
    Alias(".mix.window", "sliding_window"),
    Alias("model.local", "local_attention sliding_window"),
    Alias("model.base", "rope_theta rotary_base"),
    Alias(".position.base", "rope_theta rotary_base"),
    Alias("model.tied", "tie_word_embeddings tie_embeddings tie_weights tied_softmax share_decoder_embeddings"),
    Alias(".head.tied", "tie_word_embeddings tie_embeddings tie_weights tied_softmax"),
    Alias("model.share", "share_embeddings tied_embeddings"),
    Alias("model.share", "share_all_embeddings", form="model.share={value} model.tied={value}"),
    Alias("model.experts", EXPERTS),
    Alias(".ffn.experts", EXPERTS),
    Alias("model.top", "num_experts_per_tok num_experts_per_token moe_top_k"),
    Alias(".ffn.top", "num_experts_per_tok num_experts_per_token moe_top_k"),
    Alias("model.shared", "n_shared_experts num_shared_experts"),
    Alias(".ffn.shared", "n_shared_experts num_shared_experts"),
    Alias("model.eps", EPS),
    Alias(".norm.eps", f"{EPS} epsilon"),
    Alias("model.dropout", f"{DROP} dropout"),
    Alias(".block.dropout", DROP),
    Alias(".ffn.dropout", DROP),
    Alias("model.attention_dropout", f"{DROP_WEIGHTS} attention_dropout"),
    Alias(".mix.dropout", f"{DROP_WEIGHTS} attention_dropout", beside="heads"),
    # text and batches
    Alias("tokenizer.shared", "share_vocab joined_dictionary shared_vocab"),
    Alias("tokenizer.least", "min_freq min_frequency words_min_frequency voc_min_freq vocab_min_freq"),
    Alias("tokenizer.dropout", "bpe_dropout"),
    Alias("model.stochastic_depth", f"{DROP_PATH} stochastic_depth"),
    Alias(".stack.stochastic_depth", DROP_PATH),
    # pictures
    Alias("model.image", "img_size image_size input_size"),
    Alias("model.patch", "patch_size"),
    Alias("model.channels", "in_chans num_channels n_input_channels in_channels"),
    Alias("model.classes", "num_classes n_classes num_labels", note="in a run, the corpus says how many"),
    Alias("model.convolutions", "n_conv_layers num_conv_layers"),
    Alias("model.kernel", "kernel_size"),
    Alias("tokenizer.lowercase", "do_lower_case lower"),
    Alias("batches.tokens", "tokens_per_batch max_tokens batch_tokens"),
    Alias(
        "batches.tokens",
        "batch_size batch per_device_train_batch_size train_batch_size bsz",
        note="it counts tokens, pads included; batches.rows counts samples",
    ),
    Alias(
        "batches.longest",
        "max_length max_len max_sent_length max_source_length max_target_length src_seq_length",
        note="longer sentences are left out, and not cut",
    ),
    Alias("batches.longest", POSITIONS, note="longer sentences are left out, and not cut"),
    # the search
    Alias("task.search.beam", "num_beams beam_size beam_width beam"),
    Alias("task.search.best", "num_return_sequences n_best nbest best_of"),
    Alias("task.search.groups", "num_beam_groups diverse_beam_groups"),
    Alias("task.search.diversity", "diversity_penalty diverse_beam_strength"),
    Alias("task.search.sample", "do_sample sampling"),
    Alias("task.search.temperature", "temperature random_sampling_temp sampling_temperature"),
    Alias("task.search.top_k", "top_k random_sampling_topk sampling_topk topk"),
    Alias("task.search.top_p", "top_p random_sampling_topp sampling_topp"),
    Alias("task.search.min_p", "min_p"),
    Alias("task.search.typical", "typical_p"),
    Alias("task.search.repetition", "repetition_penalty"),
    Alias("task.search.no_repeat", "no_repeat_ngram_size block_ngram_repeat"),
    Alias("task.search.max_tokens", "max_new_tokens max_decode_length max_output_length max_tokens max_gen_len"),
    Alias("task.search.min_tokens", "min_new_tokens min_output_length min_tokens"),
    Alias("task.search.max_tokens", "max_length max_len max_len_b", note="it counts new tokens alone"),
    Alias("task.search.min_tokens", "min_length min_len", note="it counts new tokens alone"),
    Alias(
        "task.search.alpha",
        "length_penalty lenpen",
        form="task.search.length=power task.search.alpha={value}",
        note="the score is divided by this power of the length",
    ),
    Alias("task.search.coverage", "coverage_beta coverage_penalty_beta"),
    Alias("task.search.until", "early_stopping", {True: "full", False: "likely", "never": "sure"}, closed=True),
    # how long, how fast
    Alias("train.steps", "max_steps total_steps num_steps train_steps num_train_steps max_iters iterations steps"),
    Alias("train.steps", "max_update max_updates updates total_iters"),
    Alias("train.epochs", "num_epochs n_epochs max_epochs num_train_epochs max_epoch epochs epoch"),
    Alias("train.minutes", "minutes time_limit"),
    Alias(
        "train.accumulate",
        "gradient_accumulation_steps accumulation_steps grad_accum accumulate_grad_batches accum_count update_freq"
        " batch_multiplier accumulate",
    ),
    Alias(
        "train.clip",
        "max_grad_norm grad_clip gradient_clip_val gradient_clip clip_norm clip_grad_norm clip_grad max_norm clip",
        OFF,
    ),
    Alias("train.ema", "ema_decay average_decay ema"),
    Alias("train.recompute", "gradient_checkpointing activation_checkpointing"),
    Alias("train.precision", "bf16", {True: "bf16", False: "fp32"}, closed=True),
    Alias("train.precision", "mixed_precision dtype torch_dtype precision", PRECISIONS, closed=True),
    Alias("train.precision", "fp16 half amp", {False: "fp32"}, True, note="it is fp32 or bf16; there is no fp16"),
    Alias(
        "train.optimizer",
        "optim optimizer optimizer_type",
        ADAM | {n: n for n in ("adam", "muon", "sgd", "adafactor")},
        True,
    ),
    Alias("train.optimizer.rate", "learning_rate lr peak_lr max_lr rate"),
    Alias("train.optimizer.decay", "weight_decay wd"),
    Alias("train.optimizer.betas", "adam_betas betas"),
    Alias("train.optimizer.betas", "adam_beta1 beta1", form="train.optimizer.betas=[{value},0.98]"),
    Alias("train.optimizer.betas", "adam_beta2 beta2", form="train.optimizer.betas=[0.9,{value}]"),
    Alias("train.optimizer.epsilon", "adam_epsilon adam_eps"),
    Alias("train.optimizer.momentum", "momentum"),
    Alias("train.schedule", "scheduler lr_scheduler lr_scheduler_type lr_schedule decay_method", SHAPES, closed=True),
    Alias("train.schedule.warmup", "warmup_steps num_warmup_steps warmup_ratio warmup_proportion warmup_iters warmup"),
    Alias("train.schedule.warmup", "warmup_updates n_warmup_steps learning_rate_warmup"),
    Alias("train.schedule.floor", "min_lr_ratio"),
    Alias("train.schedule.floor", "min_lr end_learning_rate", note="it is a share of the peak, as 0.1, and not a rate"),
    Alias("task.smoothing", "label_smoothing label_smoothing_factor smoothing"),
    # what is measured and kept
    Alias("train.evaluate", "eval_steps eval_interval eval_every evaluation_steps valid_steps validation_freq"),
    Alias("train.evaluate", "validate_interval_updates"),
    Alias("train.save", "save_steps save_interval save_every checkpoint_every save_checkpoint_steps"),
    Alias("train.save", "save_interval_updates"),
    Alias("train.keep", "save_total_limit keep_last keep_checkpoint keep_last_epochs"),
    Alias("train.best", "keep_best_ckpts keep_best_checkpoints"),
    Alias(
        "train.goal",
        "metric_for_best_model best_metric early_stopping_metric best_checkpoint_metric",
        {"eval_loss": "loss"},
    ),
    Alias("train.patience", "early_stopping early_stopping_patience patience"),
    # adapters
    Alias("train.adapt.alpha", "lora_alpha"),
    Alias("train.adapt.rank", "lora_rank lora_r"),
    Alias("train.adapt.targets", "target_modules", note="these are patterns of our names, such as *.query"),
    Alias("train.adapt.whole", "modules_to_save", note="these are patterns of our names, such as head.*"),
    # the run
    Alias("seed", "random_seed manual_seed seed"),
    Alias("out", "output_dir out_dir save_dir model_dir save_model checkpoint_dir"),
    Alias("data", "data_dir data_path dataset_path"),
    Alias(
        "start", "init_from train_from finetune_from_model pretrained_model_name_or_path model_name_or_path load_model"
    ),
    Alias("device", "use_cuda cuda", {True: "cuda", False: "cpu"}, closed=True),
    Alias("device", "no_cuda use_cpu", {True: "cpu", False: "auto"}, closed=True),
    Alias("device", "accelerator", {"gpu": "cuda", "cuda": "cuda", "cpu": "cpu", "mps": "mps", "auto": "auto"}, True),
)

# what others set and nobody needs to, or can't
NOWHERE = {
    "logging_steps log_interval report_every logging_freq": "every step is noted in metrics.jsonl, always",
    "num_workers dataloader_num_workers": "batches are made ahead by a thread, so there is no setting",
    "batch_type normalization": "batches and losses are counted in tokens, always",
    "eval_batch_size per_device_eval_batch_size valid_batch_size": "validation has the batches of batches.tokens too",
    "pad_token_id eos_token_id bos_token_id": "the tokenizer knows its special tokens",
    "num_labels num_classes n_classes": "the labels are counted from the data",
    "use_cache": "states are always kept while a text is written",
}

# what others take for one of our kinds, by where it stands, and what is typed instead
KINDS = {
    "mix": {cell: f"{{place}}=recurrent {{place}}.cell={cell}" for cell in ("lstm", "gru", "rnn")},
    "pieces": dict.fromkeys(("char", "chars", "characters", "letters"), "{place}=character")
    | dict.fromkeys(("words", "whitespace"), "{place}=word")
    | dict.fromkeys(("subword", "subwords"), "{place}=bpe")
    | {"bytes": "{place}=byte", "sentencepiece": "{place}=unigram", "bbpe": "{place}=byte-bpe"},
}
# places at which no name of others will do, and why
NAMELESS = {"tokenizer": "a model of start=FOLDER brings its tokenizer along; others are learned: tokenizer.pieces=bpe"}

FOREIGN: dict[str, list[Alias]] = {}  # the rows of each word
for _row in ROWS:
    for _word in _row.words.split():
        FOREIGN.setdefault(_word, []).append(_row)
NEEDLESS = {word: reason for words, reason in NOWHERE.items() for word in words.split()}

# arguments of other models' calls, and what is passed here instead
CALLS = {
    "attention_mask": "valid=attention_mask.bool()",
    "src_mask": "valid=…, True where a token is real; the model knows what may see what",
    "tgt_mask": "nothing: a decoder is causal by itself",
    "attn_mask": "valid=…, True where a token is real; the model knows what may see what",
    "key_padding_mask": "valid=~key_padding_mask",
    "src_key_padding_mask": "valid=~src_key_padding_mask",
    "tgt_key_padding_mask": "valid=~tgt_key_padding_mask",
    "padding_mask": "valid=~padding_mask",
    "memory_key_padding_mask": "memory=model.encode(tokens, valid): a memory knows which of its tokens are real",
    "encoder_padding_mask": "memory=model.encode(tokens, valid): a memory knows which of its tokens are real",
    "input_ids": "model(tokens)",
    "decoder_input_ids": "model(target, memory=model.encode(source))",
    "encoder_outputs": "memory=model.encode(source)",
    "encoder_hidden_states": "memory=model.encode(source)",
    "token_type_ids": "extras={'segments': token_type_ids}",
    "position_ids": "nothing: positions are counted from valid",
    "past_key_values": "model.step(tokens, state), with state = model.start(rows)",
    "use_cache": "model.step(tokens, state), with state = model.start(rows)",
    "labels": "nothing: a model gives logits, and a task has the loss",
    "output_attentions": "probe=Record('*.weights')",
    "output_hidden_states": "probe=Record('*.output')",
    "return_dict": "nothing: a call returns the logits",
}
