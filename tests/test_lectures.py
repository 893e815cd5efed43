"""What the lectures state about attention, Transformers and recurrence, each as something that can fail."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from regard.core.mixer import Mixer, MixerSpec
from regard.core.probe import Edit, Record
from regard.core.state import Memory
from regard.core.view import View
from regard.mixers.attention import Attention, MultiHeadAttention
from regard.mixers.attentive import Attentive
from regard.models import preset
from regard.parts.cell import Cell
from regard.parts.score import Dot, Scaled, ScoreSpec, weigh

WIDTH = 16


def run(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    return mixer(x, View.of(x))


def made(**settings: object) -> Mixer:
    torch.manual_seed(0)
    return Attention(heads=4, **settings).build(WIDTH).eval()


class TestSelfAttentionIsAboutSets:
    x = torch.randn(2, 9, WIDTH, generator=torch.Generator().manual_seed(1))
    order = torch.randperm(9, generator=torch.Generator().manual_seed(2))

    def permutes(self, mixer: Mixer) -> bool:
        return torch.allclose(run(mixer, self.x[:, self.order]), run(mixer, self.x)[:, self.order], atol=1e-5)

    def test_without_positions_it_is_permutation_equivariant(self) -> None:
        assert self.permutes(made())

    def test_with_positions_it_is_not(self) -> None:
        for kind in ("rotary", "alibi", "bucketed"):
            assert not self.permutes(made(position=kind))

    def test_with_a_causal_mask_it_is_not(self) -> None:
        assert not self.permutes(made(causal=True))

    def test_positions_added_to_the_words_break_it_too(self) -> None:
        model = preset("transformer-tiny", width=16, depth=1, heads=2, vocabulary=20).build().eval()
        bare = preset("transformer-tiny", width=16, depth=1, heads=2, vocabulary=20, position=None).build().eval()
        bare.load_state_dict(model.state_dict())
        tokens = torch.randint(20, (2, 9))
        for network, equivariant in ((model, False), (bare, True)):
            straight = network.encode(tokens)
            mixed = network.encode(tokens[:, self.order])
            assert straight is not None and mixed is not None
            same = torch.allclose(mixed.states, straight.states[:, self.order], atol=1e-5)
            assert same == equivariant


class TestAttentionIsASoftLookup:
    keys = torch.eye(5, 8)[None]  # five different keys
    values = torch.randn(1, 5, 3, generator=torch.Generator().manual_seed(3))

    def look(self, query: torch.Tensor, score: ScoreSpec) -> torch.Tensor:
        scores = score.build(8, 8)(query, self.keys)
        return weigh(scores, None) @ self.values

    def test_a_matching_key_with_a_large_score_returns_its_value(self) -> None:
        for place in range(5):
            found = self.look(100 * self.keys[:, place : place + 1], Dot())
            torch.testing.assert_close(found[0, 0], self.values[0, place])

    def test_equal_scores_return_the_mean(self) -> None:
        found = self.look(torch.zeros(1, 1, 8), Dot())
        torch.testing.assert_close(found[0, 0], self.values[0].mean(0))

    def test_mean_pooling_is_attention_with_equal_weights(self) -> None:
        pool = MixerSpec.parse({"kind": "pool", "project": False}).build(WIDTH)
        x = torch.randn(2, 7, WIDTH)
        torch.testing.assert_close(run(pool, x), x.mean(1, keepdim=True).expand_as(x))

    def test_a_score_of_minus_infinity_gets_weight_exactly_zero(self) -> None:
        weights = weigh(torch.tensor([[1.0, -torch.inf, 2.0]]), None)
        assert weights[0, 1] == 0
        masked = weigh(torch.tensor([[1.0, 50.0, 2.0]]), torch.tensor([[True, False, True]]))
        assert masked[0, 1] == 0
        torch.testing.assert_close(masked, weights)

    def test_scaling_changes_sharpness_not_order(self) -> None:
        query = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(4))
        keys = torch.randn(1, 6, 8, generator=torch.Generator().manual_seed(5))
        sharp = weigh(Dot().build(8, 8)(query, keys), None)
        soft = weigh(Scaled().build(8, 8)(query, keys), None)
        assert (sharp.argsort(-1) == soft.argsort(-1)).all()
        entropy = lambda weights: -(weights * weights.log()).sum(-1)  # noqa: E731
        assert (entropy(soft) > entropy(sharp)).all()


def test_multi_head_is_the_heads_apart_concatenated_projected() -> None:
    mixer = made()
    assert isinstance(mixer, MultiHeadAttention)
    x = torch.randn(2, 6, WIDTH)
    heads = []
    for part in torch.arange(WIDTH).split(4):
        q, k, v = (F.linear(x, w.weight[part], w.bias[part]) for w in (mixer.query, mixer.key, mixer.value))
        heads.append((q @ k.mT / 4**0.5).softmax(-1) @ v)
    expected = F.linear(torch.cat(heads, -1), mixer.output.weight, mixer.output.bias)
    torch.testing.assert_close(run(mixer, x), expected, atol=1e-5, rtol=1e-4)


def test_layer_norm_and_the_residual_are_their_formulas() -> None:
    x = torch.randn(2, 5, WIDTH)
    for place in ("pre", "post"):
        model = preset("gpt2", width=WIDTH, depth=1, heads=2, vocabulary=9).replace()
        spec = model.decoder.blocks[0].replace(place=place)  # type: ignore[union-attr]
        block = spec.build(WIDTH).eval()
        sub = block.mix
        assert sub is not None and isinstance(sub.norm, nn.LayerNorm)
        nn.init.normal_(sub.norm.weight)
        nn.init.normal_(sub.norm.bias)
        view = View.of(x)

        def norm(y: torch.Tensor, at: nn.LayerNorm = sub.norm) -> torch.Tensor:
            mean, variance = y.mean(-1, keepdim=True), y.var(-1, unbiased=False, keepdim=True)
            return (y - mean) / (variance + at.eps).sqrt() * at.weight + at.bias

        expected = x + sub.inner(norm(x), view) if place == "pre" else norm(x + sub.inner(x, view))
        torch.testing.assert_close(sub(x, view, None), expected, atol=1e-5, rtol=1e-4)


def test_the_jacobian_of_an_rnn_is_a_product_and_vanishes() -> None:
    """∂h_t/∂h_k = Π diag(1 - h_i²) W, by autograd and by the formula; its norm shrinks to nothing."""
    torch.manual_seed(0)
    cell, size, steps = Cell("rnn", 4, 6), 6, 12
    weight = cell.fused.get_parameter("weight_hh_l0").detach()
    inputs = torch.randn(steps, 1, 4)

    def unroll(first: torch.Tensor) -> torch.Tensor:
        carry = (first[None, None],)
        hidden = []
        for x in inputs:
            top, carry = cell.step(x, carry)  # type: ignore[assignment]
            hidden.append(top[0])
        return torch.stack(hidden)

    start = torch.randn(size)
    jacobian = torch.autograd.functional.jacobian(unroll, start)  # (steps, size, size)
    hidden = unroll(start)
    product, norms = torch.eye(size), []
    for time in range(steps):
        product = torch.diag(1 - hidden[time] ** 2) @ weight @ product
        torch.testing.assert_close(jacobian[time], product, atol=1e-5, rtol=1e-4)
        norms.append(torch.linalg.matrix_norm(product, 2))
    assert norms[-1] < 0.1 * norms[0]
    # an orthogonal matrix with nothing to squash it keeps the norm at 1, and a larger one explodes
    powers = [torch.linalg.matrix_norm(torch.linalg.matrix_power(w, steps), 2) for w in (weight, 1.5 * weight)]
    torch.testing.assert_close(powers[0], torch.tensor(1.0), atol=1e-4, rtol=0)
    assert powers[1] > 100


def test_the_bottleneck_hides_all_but_the_last_state() -> None:
    """Without attention two sources with one last state are one source; with attention they aren't."""
    model = preset("seq2seq", width=16, vocabulary=9).build().eval()
    looking = preset("luong", width=16, vocabulary=9).build().eval()
    tokens = torch.randint(9, (1, 5))
    for network, blind in ((model, True), (looking, False)):
        one = network.encode(torch.randint(9, (1, 6)))
        assert one is not None
        other = Memory(tensors=(torch.randn_like(one.states),), final=one.final)
        assert torch.equal(network(tokens, one), network(tokens, other)) == blind


def test_between_the_bottleneck_and_attention_there_is_access_by_a_rule() -> None:
    """All states, by weights that nobody learns: their mean, or at step t the source's state t."""
    memory_length, steps = 4, 6
    rules = {
        "seq2seq-mean": torch.full((steps, memory_length), 1 / memory_length),
        "seq2seq-skip": torch.eye(memory_length)[[0, 1, 2, 3, 3, 3]],
    }
    count = preset("luong", width=16, vocabulary=9, score="dot").build("meta").parameter_count()
    for name, rule in rules.items():
        model = preset(name, width=16, vocabulary=9).build().eval()
        assert model.parameter_count() == count  # a dot has no weights either
        memory, record = model.encode(torch.randint(9, (1, memory_length))), Record("decoder.*.weights")
        tokens = torch.randint(9, (1, steps))
        whole = model(tokens, memory, probe=record)
        torch.testing.assert_close(record["decoder.blocks.0.mix.weights"][0, 0], rule)
        state = model.start(1, memory)
        stepped = torch.stack([model.step(tokens[:, time], state) for time in range(steps)], 1)
        torch.testing.assert_close(stepped, whole, atol=1e-5, rtol=1e-4)


def test_hard_attention_looks_at_one_place_and_learns() -> None:
    """One-hot in the forward pass, whole and step by step, and a gradient for what the scores are made of."""
    tokens = torch.randint(9, (2, 5))
    for name, slot, path in (("transformer-tiny", "cross", "cross"), ("luong", "mix", "mix"), ("gpt2", "mix", "mix")):
        sizes = {"heads": 2} if name != "luong" else {}
        model = preset(name, width=16, depth=1, vocabulary=9, **sizes, **{slot: {"hard": True}}).build().eval()
        memory, record = model.encode(tokens), Record(f"decoder.blocks.0.{path}.weights")
        model(tokens, memory, probe=record).square().sum().backward()
        state = model.start(2, memory)
        with torch.no_grad():
            for time in range(5):
                model.step(tokens[:, time], state, probe=record)
        for weights in record.pieces[f"decoder.blocks.0.{path}.weights"]:
            assert set(weights.detach().flatten().tolist()) <= {0.0, 1.0}
            assert (weights.sum(-1) == 1).all()
        asked = [weight for key, weight in model.named_parameters() if f"{path}.inner.query" in key or ".score." in key]
        assert asked and all(weight.grad is not None and weight.grad.any() for weight in asked), name


def test_alignment_comes_for_free_and_can_be_changed() -> None:
    """The weights over a memory are an alignment: they sum to one over the source, and an edit moves the output."""
    model = preset("bahdanau", width=16, vocabulary=9).build().eval()
    memory = model.encode(torch.randint(9, (2, 6)))
    tokens, record = torch.randint(9, (2, 4)), Record("decoder.*.weights")
    plain = model(tokens, memory, probe=record)
    weights = record["decoder.blocks.0.mix.weights"]
    assert weights.shape == (2, 1, 4, 6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 4))
    onto_first = Edit({"decoder.*.weights": lambda w: F.one_hot(torch.zeros(w.shape[:-1]).long(), 6).float()})
    assert not torch.allclose(model(tokens, memory, probe=onto_first), plain)


def test_additive_attention_is_its_formula() -> None:
    torch.manual_seed(0)
    mixer = Attentive(score="additive").build(8)
    score = mixer.score
    query, memory = torch.randn(1, 1, 8), torch.randn(1, 5, 8)
    expected = [
        score.score.weight[0] @ torch.tanh(score.query(query[0, 0]) + score.key.weight @ key)  # type: ignore[operator, union-attr, index]
        for key in memory[0]
    ]
    torch.testing.assert_close(score(query, score.prepare(memory))[0, 0], torch.stack(expected))  # type: ignore[operator, union-attr]
