"""The network that pronounces English words in the package `g2p-en`: two GRUs, kept as plain arrays in an npz file."""

from __future__ import annotations

import string
import zipfile
from pathlib import Path

import numpy as np
import torch
from tokenizers import Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Engine

from regard.data.tokenizer import Tokenizer
from regard.decode.translator import Translator
from regard.errors import CheckpointError
from regard.models import preset

GRU = "blocks.0.mix.inner.cell.fused"
ROWS = {
    "enc_emb": "encoder.embedding.tokens.weight",
    "enc_w_ih": f"encoder.{GRU}.weight_ih_l0",
    "enc_w_hh": f"encoder.{GRU}.weight_hh_l0",
    "enc_b_ih": f"encoder.{GRU}.bias_ih_l0",
    "enc_b_hh": f"encoder.{GRU}.bias_hh_l0",
    "dec_emb": "decoder.embedding.tokens.weight",
    "dec_w_ih": f"decoder.{GRU}.weight_ih_l0",
    "dec_w_hh": f"decoder.{GRU}.weight_hh_l0",
    "dec_b_ih": f"decoder.{GRU}.bias_ih_l0",
    "dec_b_hh": f"decoder.{GRU}.bias_hh_l0",
    "fc_w": "head.words.weight",
    "fc_b": "head.bias",
}
VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY"), ("EH", "ER", "EY"), ("IH", "IY"), ("OW", "OY")
LETTERS = ["<pad>", "<unk>", "</s>", *string.ascii_lowercase]


def sounds() -> list[str]:
    """The phonemes of the CMU dictionary, vowels with their stress, in the order of the network's outputs."""

    def stressed(vowels: tuple[str, ...]) -> list[str]:
        return [f"{vowel}{stress}" for vowel in vowels for stress in range(3)]

    first = [*stressed(VOWELS[0]), "B", "CH", "D", "DH", *stressed(VOWELS[1]), "F", "G", "HH", *stressed(VOWELS[2])]
    middle = ["JH", "K", "L", "M", "N", "NG", *stressed(VOWELS[3]), "P", "R", "S", "SH", "T", "TH", *stressed(("UH",))]
    return ["<pad>", "<unk>", "<s>", "</s>", *first, *middle, "UW", *stressed(("UW",)), "V", "W", "Y", "Z", "ZH"]


def pronouncer(path: Path) -> Translator:
    """From letters to phonemes: `pronouncer(path).translate("regard").text` is "R IH0 G AA1 R D"."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: torch.from_numpy(np.array(file[name], np.float32)) for name in file.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path}: not an npz file of plain arrays: {error}") from None
    wrong = sorted(set(ROWS) ^ set(arrays))
    if wrong:
        raise CheckpointError(f"{path}: not the arrays of g2p-en: {', '.join(wrong)}")
    width = int(arrays["enc_w_hh"].shape[-1])
    spec = preset(
        "seq2seq",
        cell="gru",
        width=width,
        direction="forward",
        source_vocabulary=len(LETTERS),
        vocabulary=len(sounds()),
        tied=False,
        dropout=0.0,
    )
    model = spec.build()
    for name, array in arrays.items():
        wanted = model.state_dict()[ROWS[name]].shape
        if array.shape != wanted:
            raise CheckpointError(f"{path}: {name} is {tuple(array.shape)}, and {tuple(wanted)} is expected")
        if not array.isfinite().all():
            raise CheckpointError(f"{path}: {name} has values that aren't finite")
    model.load_state_dict({ROWS[name]: array for name, array in arrays.items()})
    return Translator(model.eval(), _cutter(LETTERS, r"[\s\S]", end=2), _cutter(sounds(), r"\s+", end=3))


def _cutter(names: list[str], bound: str, end: int) -> Tokenizer:
    """A tokenizer of whole names: letters one by one, phonemes between spaces."""
    engine = Engine(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    engine.normalizer = normalizers.Lowercase() if end == 2 else None
    engine.pre_tokenizer = pre_tokenizers.Split(Regex(bound), "isolated" if end == 2 else "removed")
    engine.add_special_tokens([name for name in names if name.startswith("<")])
    return Tokenizer(engine, pad=0, unknown=1, begin=2, end=end)
