"""Log-probabilities of answers against a plain loop, whatever stands beside them."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

import regard
from regard.data.dialogue import (
    FORMATS,
    FormatName,
    Transcript,
    decode_answers,
    encode_answer,
    encode_dialogue,
    encode_prompt,
)
from regard.data.tokenizer import TokenizerSpec
from regard.tasks.feedback.likelihood import AnswerBatch, find_logs

TALK = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Who are you?"},
    {"role": "assistant", "content": "A model."},
    {"role": "user", "content": "Since when?"},
]


def test_every_format_can_be_named_in_a_run_file() -> None:
    assert get_args(FormatName) == tuple(FORMATS)
    assert all(form.name == name and form.meaning for name, form in FORMATS.items())


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("pieces", ["byte-bpe", "bpe", "character"])
def test_a_prompt_and_its_answer_are_the_conversation(name: str, pieces: str) -> None:
    form = FORMATS[name]
    spec = TokenizerSpec(pieces=pieces, vocabulary=400)
    known = ["Be kind. Who are you? A model. Since when? User: Human: Assistant: ### \n<|start_of_turn/header_id>"]
    tokenizer = spec.train(known, form.controls)
    talk = [message for message in TALK if message["role"] in form.frames]
    whole = encode_dialogue([*talk, {"role": "assistant", "content": "A model."}], form, tokenizer)
    prompt, answer = encode_prompt(talk, form, tokenizer), encode_answer("A model.", form, tokenizer)
    assert whole.tokens == [*prompt, *answer]
    assert whole.learned[len(prompt) :] == [True] * len(answer)
    assert sum(whole.learned) == 2 * len(answer)  # both answers, and nothing that the format or others say
    assert decode_answers([answer], form, tokenizer) == ["A model."]


@torch.no_grad()
def test_answers_are_as_likely_as_a_plain_loop_finds_them() -> None:
    torch.manual_seed(1)
    model = regard.preset("gpt2", width=16, depth=2, heads=2, vocabulary=11, dropout=0.0).build().eval().double()
    rows = [
        Transcript([2, 5, 6, 7, 3], [False, False, True, True, True]),
        Transcript([2, 9, 3], [False, False, True]),
    ]
    found = find_logs(model, AnswerBatch.lay_out(rows, 0), temperature=0.7)
    for row, own in zip(rows, found, strict=True):
        for place in range(1, len(row.tokens)):
            logits = model(torch.tensor([row.tokens[:place]]))[0, -1] / 0.7
            wanted = logits.log_softmax(-1)[row.tokens[place]] if row.learned[place] else torch.tensor(0.0)
            assert float(own[place - 1]) == pytest.approx(float(wanted), abs=1e-10)
    assert not found[1, 2:].any()
