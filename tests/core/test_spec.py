"""Descriptions: what is refused, and how that is said."""

from __future__ import annotations

import pytest
import torch

from regard.core.block import BlockSpec
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.stack import StackSpec
from regard.decode.search import Search
from regard.errors import InputError, RegardError, SpecError
from regard.mixers.attention import Attention
from regard.mixers.recurrent import Recurrent
from regard.models import preset
from regard.parts.embedding import Tokens
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal


def test_heads_that_do_not_divide_the_width_name_both_and_a_way_out() -> None:
    with pytest.raises(SpecError, match=r"heads: width 512 is not divisible by heads 7\n  try: heads=8"):
        Attention(heads=7).build(512)


def test_a_spec_that_cannot_be_built_costs_no_memory() -> None:
    """4 million channels and 4,096 layers would be more than any machine has; the error comes first."""
    with pytest.raises(SpecError, match="heads"):
        preset("gpt2", width=2**22, depth=4096, heads=7).build()


@pytest.mark.parametrize("width", [-1, 0, 10**12, 1.5, "wide", None, float("nan"), True])
def test_an_impossible_width_is_refused(width: object) -> None:
    with pytest.raises(SpecError, match="width"):
        preset("gpt2", width=width)


def test_an_unknown_kind_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="unknown kind 'atention'; did you mean 'attention'"):
        MixerSpec.parse("atention")
    with pytest.raises(SpecError, match="mix: unknown kind 'xyz'; known: attention, "):
        BlockSpec.parse({"mix": "xyz"})
    with pytest.raises(SpecError, match="mix: unknown kind 'rmsnorm'"):
        BlockSpec.parse({"mix": "rmsnorm"})  # a kind, but not one that mixes


def test_all_mistakes_are_told_at_once_with_their_places() -> None:
    with pytest.raises(SpecError) as caught:
        BlockSpec.parse({"mix": {"kind": "attention", "haeds": 4, "window": -1}, "place": "before", "nrom": "rmsnorm"})
    text = str(caught.value)
    assert "mix.haeds: unknown setting; did you mean 'heads'" in text
    assert "mix.window" in text and "-1" in text
    assert "place" in text and "'before'" in text
    assert "nrom: unknown setting; did you mean 'norm'" in text


def test_a_constructor_complains_as_a_reader_does() -> None:
    with pytest.raises(SpecError, match="did you mean 'heads'"):
        Attention(haeds=4)  # type: ignore[call-arg]


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(Exception, match="frozen"):
        Attention().heads = 3  # type: ignore[misc]


def decoder(block: BlockSpec) -> StackSpec:
    return StackSpec(width=16, depth=1, embedding=Tokens(vocabulary=9), blocks=(block,))


def test_cross_without_an_encoder_is_refused() -> None:
    block = BlockSpec(mix=Attention(causal=True), cross=Attention(over="memory"))
    with pytest.raises(SpecError, match=r"decoder.blocks.0 reads a memory of width 16, and there is none"):
        ModelSpec(decoder=decoder(block), head=Vocabulary(), init=Normal())


def test_cross_that_looks_at_itself_is_refused() -> None:
    with pytest.raises(SpecError, match="cross must read the memory"):
        BlockSpec(cross=Attention())


def test_a_decoder_that_sees_the_future_is_refused() -> None:
    spec = ModelSpec(decoder=decoder(BlockSpec(mix=Recurrent(direction="both"))), head=Vocabulary(), init=Normal())
    with pytest.raises(SpecError, match=r"decoder.blocks.0.mix sees later positions"):
        spec.build()


def test_cross_without_a_memory_is_refused_when_called() -> None:
    model = preset("transformer-tiny", depth=1, vocabulary=9).build()
    with pytest.raises(InputError, match=r"decoder.blocks.0.cross looks at a memory"):
        model(torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(InputError, match="from a memory"):
        model.start(1)


def test_inputs_that_do_not_fit_are_refused() -> None:
    model = preset("gpt2", depth=1, width=64, vocabulary=9, context=8).build()
    with pytest.raises(InputError, match="9 positions, and the model has learned vectors for 8"):
        model(torch.zeros(1, 9, dtype=torch.long))
    with pytest.raises(InputError, match="tokens are integers"):
        model(torch.zeros(1, 9))
    with pytest.raises(InputError, match=r"valid is a torch.bool of shape \(1, 4\)"):
        model(torch.zeros(1, 4, dtype=torch.long), valid=torch.ones(1, 5, dtype=torch.bool))
    encoder = preset("bert-tiny", vocabulary=9).build("meta")
    with pytest.raises(InputError, match="no next token"):
        encoder.start(1)
    images = preset("vit-tiny").build()
    with pytest.raises(InputError, match="images are floats of shape"):
        images(torch.zeros(1, 3, 8, 8))


def test_a_user_error_carries_its_own_exit_status() -> None:
    assert len({kind.status for kind in (RegardError, SpecError, InputError)}) == 3


def test_settings_of_an_earlier_name_are_read_by_their_new_one() -> None:
    """Run files and checkpoints of earlier versions hold them."""
    assert Search.parse({"minimum": 2, "maximum": 9}) == Search(min_tokens=2, max_tokens=9)
    assert Search().replace(maximum=9) == Search(max_tokens=9) == Search().heed({"maximum": 9})
    with pytest.raises(SpecError, match="maximum"):
        Search.parse({"maximum": 8, "max_tokens": 9})


def test_calling_a_spec_says_how_to_build_the_module() -> None:
    with pytest.raises(SpecError, match=r"try: Attention\(…\).build\(width\)"):
        Attention(heads=2)(torch.zeros(1, 3, 8))
