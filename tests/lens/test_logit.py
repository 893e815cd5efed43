"""The logit lens, against the model's own head."""

from __future__ import annotations

import pytest
import torch

from regard.errors import InputError
from regard.lens.logit import logit_lens
from regard.parts.head import Classes, Vocabulary
from tests.lens.texts import SOURCE, TEXT, build, build_encoder, look_at


@pytest.mark.parametrize("name", ["gpt2", "llama-tiny", "transformer-tiny", "bert-tiny", "hybrid"])
@torch.no_grad()
def test_every_layer_is_read_as_the_last_one_is(name: str) -> None:
    kv = {"kv_heads": 2} if name == "llama-tiny" else {}
    model = build_encoder(Vocabulary()) if name == "bert-tiny" else build(name, depth=2, heads=2, **kv)
    look = look_at(model, source=SOURCE if name == "transformer-tiny" else None)
    found = logit_lens(look, best=4)
    stack = model.decoder or model.encoder
    assert stack is not None
    where = "decoder" if model.decoder is not None else "encoder"
    assert found.layers == [f"{where}.embedded", f"{where}.blocks.0.stream", f"{where}.blocks.1.stream"]
    assert found.positions == [0, 1, 2, 3, 4]
    assert found.answers == [f"w{token}" for token in TEXT[1:]]
    for number, layer in enumerate(found.layers):
        stream = look.values(layer)[layer][None]
        shares = model.answer(stream if stack.norm is None else stack.norm(stream))[0].softmax(-1)
        for position, right in enumerate(TEXT[1:]):
            order = shares[position].argsort(descending=True).tolist()
            assert float(found.probability[number, position]) == pytest.approx(float(shares[position, right]), rel=1e-4)
            assert int(found.rank[number, position]) == order.index(right) + 1
            best = found.best[number][position]
            assert [word for word, _ in best] == [f"w{word}" for word in order[:4]]
            assert best[0][1] == pytest.approx(float(shares[position].max()), rel=1e-4)
    own = [prediction.log_probability for prediction in look.predictions()]
    torch.testing.assert_close(found.probability[-1].log(), torch.tensor(own))


@torch.no_grad()
def test_a_text_with_one_answer_has_one_position() -> None:
    model = build_encoder(Classes(classes=3, pool="mean"))
    look = look_at(model, targets={0: 2}, output="sigmoid")
    found = logit_lens(look)
    assert found.probability.shape == (3, 1)
    torch.testing.assert_close(found.probability[-1, 0], look.logits.sigmoid()[2])
    assert found.answers == ["w2"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lstm", r"decoder\.blocks\.0 \(recurrent\) doesn't add to a stream"),
        ("bahdanau", r"decoder\.blocks\.\d \(attentive\) doesn't add to a stream"),
        ("elmo", "no single answer"),
    ],
)
def test_other_stacks_are_refused_by_name(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        logit_lens(look_at(build(name, depth=1), source=SOURCE if name == "bahdanau" else None))


def test_a_blend_of_layers_is_refused() -> None:
    spec = build_encoder(Vocabulary()).spec
    assert spec.encoder is not None
    model = spec.replace(encoder=spec.encoder.replace(blend=True)).build().eval()
    with pytest.raises(InputError, match="a blend of all layers"):
        logit_lens(look_at(model))
