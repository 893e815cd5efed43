"""The slots that every family has: what a user puts into one is made to suit the place where it stands.

A family composes its model as it knows it. What was said of `mix`, `cross`, `ffn`, `norm` or `position` then goes over
that: over the family's own part where it is of the same kind, else in its place. The place decides what the user
needn't say: a decoder's mixer sees no later position, an encoder's sees all, a `cross` looks at the memory, positions
stand at the embedding or inside attention. What can't stand somewhere is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from regard.core.block import BlockSpec
from regard.core.blueprint import blueprint
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.role import AbsoluteSpec, FeedSpec, NormSpec, RelativeSpec
from regard.core.spec import Spec, show_value
from regard.core.stack import StackSpec
from regard.errors import SpecError
from regard.models.slot import Choice, Said, settle, takes

StackName = Literal["encoder", "decoder"]
STACKS: tuple[StackName, ...] = ("encoder", "decoder")


@dataclass(frozen=True)
class Site:
    """A stack of a family's model, as a part that is to stand in it sees it."""

    family: str
    settings: Mapping[str, Any]
    model: ModelSpec
    name: StackName

    @property
    def stack(self) -> StackSpec:
        stack = self.model.encoder if self.name == "encoder" else self.model.decoder
        assert stack is not None
        return stack

    @property
    def alone(self) -> bool:
        """Whether it is the only stack."""
        return self.model.encoder is None or self.model.decoder is None

    @property
    def apart(self) -> bool:
        """Whether two directions predict words here, which would be told them if they met."""
        return self.model.head is not None and self.model.head.direction_count > 1

    @property
    def usual(self) -> dict[str, Any]:
        """Settings of a part that follow from the family's."""
        width, given = self.stack.width, self.settings
        return {
            "heads": given.get("heads") or max(1, width // 64),
            "hidden": given.get("hidden"),
            "context": given.get("context"),
            "both": self.name == "encoder",
        }

    def change(self, stack: StackSpec) -> Site:
        return replace(self, model=self.model.model_copy(update={self.name: stack}))

    def each_block(self, change: Callable[[BlockSpec], BlockSpec], **more: Any) -> Site:
        """The same stack with every block changed."""
        blocks, first = (tuple(map(change, part)) for part in (self.stack.blocks, self.stack.first))
        return self.change(self.stack.model_copy(update={"blocks": blocks, "first": first, **more}))


def fill(model: ModelSpec, family: str, settings: Mapping[str, Any], said: Mapping[str, Choice]) -> ModelSpec:
    """A family's model with what was said of its slots, by their names."""
    steps: dict[str, Callable[[Site, Any], Site]] = {
        "mix": set_mixers,
        "cross": set_crosses,
        "ffn": set_feeds,
        "norm": set_norms,
        "position": set_positions,  # last: where positions stand depends on the mixers
    }
    if not said:
        return model
    for slot, change in steps.items():
        told = said.get(slot)
        if told is None:
            continue
        names = [
            name for name in STACKS if _has_slot(getattr(model, name), slot) and (slot != "cross" or name == "decoder")
        ]
        sites = [Site(family, settings, model, name) for name in names]
        if slot == "cross" and (not sites or sites[0].alone):
            raise SpecError(
                f"cross: {family} has one stack, so there is no memory to look at",
                "a preset with an encoder and a decoder: transformer-tiny cross=attention",
            )
        if not sites:
            raise SpecError(f"{slot}: {family} has no blocks, so nothing can stand in them", "depth=1")
        if told != "none":
            _insist_on_a_reader(sites, slot, told)
        done: dict[str, StackSpec] = {site.name: change(site, told).stack for site in sites}
        if told != "none":
            _insist_on_what_was_said(sites, done, slot, told)
        model = model.model_copy(update=done)
    if model.encoder is not None and model.decoder is not None:
        _insist_on_a_link(model, family)
    return ModelSpec.parse(model.model_dump())


def _has_slot(stack: StackSpec | None, slot: str) -> bool:
    """Whether something can stand there: a stack without blocks is its embedding, which takes positions alone."""
    return stack is not None and (stack.depth > 0 or slot == "position")


def parts(stack: StackSpec, slot: str) -> list[Spec]:
    """What a stack has in a slot, each kind of it once."""
    if slot == "position":
        inside = [block.mix.relative for block in stack.layout() if block.mix is not None]
        found: list[Any] = [stack.embedding.absolute, stack.bias, *inside]
    else:
        found = [getattr(block, slot) for block in stack.layout()]
    return list({part.kind: part for part in found if part is not None}.values())


def _insist_on_a_reader(sites: list[Site], slot: str, said: Said) -> None:
    """Refuse settings without a kind that no part of the family has."""
    there = [part for site in sites for part in parts(site.stack, slot)]
    if any(takes(part, said) for part in there) or "kind" in said:
        return
    if not there:
        example = {"ffn": "feedforward", "norm": "layernorm", "position": "sinusoidal"}.get(slot, "attention")
        raise SpecError(f"{slot}: {sites[0].family} has none, so which kind is it to be?", f"{slot}.kind={example}")
    settle(there[0], said, slot, {})  # says which setting isn't known


def set_mixers(site: Site, said: Any) -> Site:
    """Another mixer in each block that has one of the stack's main kind: every n-th block may be of another."""
    main = site.stack.blocks[0].mix  # the first blocks of a stack may be of another kind

    def change(block: BlockSpec) -> BlockSpec:
        own = block.mix
        if said == "none":
            return _rebuild(block, "mix", mix=None)
        if (own and own.kind) != (main and main.kind) or not takes(own, said):
            return block
        mixer = settle(own, said, "mix", site.usual, MixerSpec)
        if own is not None and own.relative is not None and "position" not in said:
            mixer = _carry_over(mixer, own.relative)
        fitted = place_mixer(mixer, own, site)
        return block if fitted is None else block.replace(mix=fitted)

    done = site.each_block(change)
    layers = 1 if main is None else main.fields().get("layers", 1)
    now = done.stack.blocks[0].mix
    if layers > 1 and now is not None and "layers" not in type(now).model_fields:
        # where a mixer had several layers inside, as many blocks stand for them
        done = done.change(done.stack.model_copy(update={"depth": done.stack.depth * layers}))
    return _fit_bias(done)


def place_mixer(mixer: MixerSpec, own: MixerSpec | None, site: Site) -> MixerSpec | None:
    """A mixer as its stack needs it; None: it looks at a memory, so it is for the decoder alone."""
    if site.name == "decoder":
        mixer = mixer.forward_only()
    elif site.apart:
        mixer = mixer.keep_apart()
    elif own is None or own.kind != mixer.kind or own == own.both_ways():
        mixer = mixer.both_ways()  # but an encoder of that kind that read one way goes on doing so
    if mixer.over_memory and (site.alone or site.name == "encoder"):
        if not site.alone:
            return None
        raise SpecError(
            f"mix: {mixer.kind} looks at a memory, and {site.family} has no encoder that leaves one",
            f"mix=recurrent, or a preset with an encoder: luong mix={mixer.kind}",
        )
    # what a decoder reads may be made forwards, as it sees all of it; an answer at each position may not
    if site.name == "encoder" and site.alone and not sees_both_sides(mixer, site.stack.width):
        able = [kind for kind, spec in MixerSpec.kinds.items() if _can_see_both_sides(spec, site.stack.width)]
        raise SpecError(
            f"mix: {mixer.kind} sees only what came before, and {site.family} reads both ways",
            "mix=" + ", or ".join(sorted(able)),
        )
    return mixer


def sees_both_sides(mixer: MixerSpec, width: int) -> bool:
    with blueprint():
        return not mixer.build(width).causal


def _can_see_both_sides(spec: type[Spec], width: int) -> bool:
    """Whether a kind of mixer can stand in an encoder alone; heads and such take its usual ones."""
    try:
        mixer = spec.parse({"kind": spec.model_fields["kind"].default}).both_ways()  # type: ignore[attr-defined]
        return sees_both_sides(mixer.replace(heads=1) if "heads" in type(mixer).model_fields else mixer, width)
    except SpecError:
        return False


def _carry_over(mixer: MixerSpec, position: RelativeSpec) -> MixerSpec:
    """The family's positions inside another mixer, where that has a place for them."""
    try:
        return mixer.locate(position)
    except SpecError:
        return mixer


def _fit_bias(site: Site) -> Site:
    """Positions that a stack shares serve the heads that are there now; where nobody takes them, they go."""
    if site.stack.bias is None:
        return site
    mixers = [block.mix for block in site.stack.layout() if block.mix is not None]
    heads = {mix.biased_heads for mix in mixers if mix.biased_heads is not None}
    if len(heads) > 1:
        raise SpecError(f"mix: a bias that the stack shares serves one number of heads, and here are {sorted(heads)}")
    bias = site.stack.bias.replace(heads=heads.pop()) if heads else None
    return site.change(site.stack.model_copy(update={"bias": bias}))


def _rebuild(block: BlockSpec, slot: str, **changes: Any) -> BlockSpec:
    """A block with changes; one that has nothing left is refused by name."""
    if not any({**{name: getattr(block, name) for name in ("mix", "cross", "ffn")}, **changes}.values()):
        raise SpecError(f"{slot}: the block has nothing else, so it can't be left out", f"{slot}=… and ffn=feedforward")
    return block.replace(**changes)


def set_crosses(site: Site, said: Any) -> Site:
    """Another way of looking at the memory, in every block of the decoder."""

    def change(block: BlockSpec) -> BlockSpec:
        own = block.cross
        if said == "none":
            return _rebuild(block, "cross", cross=None)
        if not takes(own, said):
            return block
        cross = settle(own, said, "cross", site.usual, MixerSpec).read_memory()
        bare = set(block.bare) - ({"cross"} if own is not None and own.ignores_input else set())
        if cross.ignores_input and block.place != "post":
            bare.add("cross")  # a norm whose output nobody looks at would never learn
        # what is looked up is added to a stream; without one, a decoder would forget its own words
        return block.replace(cross=cross, bare=tuple(sorted(bare)), residual=block.residual or own is None)

    return site.each_block(change)


def set_feeds(site: Site, said: Any) -> Site:
    """Another feed-forward in every block."""

    def change(block: BlockSpec) -> BlockSpec:
        if said == "none":
            return _rebuild(block, "ffn", ffn=None)
        if not takes(block.ffn, said):
            return block
        return block.replace(ffn=settle(block.ffn, said, "ffn", site.usual, FeedSpec))

    if said != "none":
        _insist_on_one_direction(site, "ffn", "mixes all channels")
    return site.each_block(change)


def set_norms(site: Site, said: Any) -> Site:
    """Another norm in every block, and wherever else the stack has one."""

    def settled(own: NormSpec | None) -> NormSpec | None:
        if said == "none":
            return None
        return settle(own, said, "norm", {}, NormSpec) if takes(own, said) else own

    if said != "none":
        _insist_on_one_direction(site, "norm", "looks at all channels")
    stack, embedding = site.stack, site.stack.embedding
    if embedding.fields().get("norm") is not None:
        embedding = embedding.replace(norm=settled(embedding.fields()["norm"]))
    closing = None if stack.norm is None else settled(stack.norm)
    return site.each_block(lambda block: block.replace(norm=settled(block.norm)), embedding=embedding, norm=closing)


def _insist_on_one_direction(site: Site, slot: str, what: str) -> None:
    if site.apart:
        raise SpecError(
            f"{slot}: it {what}, and {site.family}'s two directions must never meet: each would be told its answer",
            f"{slot}=none, or another family, such as bilstm",
        )


def set_positions(site: Site, said: Any) -> Site:
    """Other positions, where that kind stands: absolute ones at the embedding, relative ones inside attention."""
    stack = site.stack
    if said == "none":
        return _locate(site, None, None)
    own = parts(stack, "position")
    kind = said.get("kind") or next(part.kind for part in own if takes(part, said))
    said = {**said, "kind": kind}
    if kind in AbsoluteSpec.kinds:
        position = settle(stack.embedding.absolute, said, "position", site.usual, AbsoluteSpec)
        if site.usual["context"] and position.fields().get("context", 0) is None:
            position = position.replace(context=site.usual["context"])
        return _locate(site, position, None)
    if stack.bias is not None and stack.bias.kind == kind:
        return site.change(stack.replace(bias=settle(stack.bias, said, "position", {})))
    return _locate(site, None, said)


def _locate(site: Site, absolute: AbsoluteSpec | None, relative: Said | None) -> Site:
    """The stack with these positions and none of those that it had, but for what was said of the mixer itself."""
    refusals: list[SpecError] = []
    mixer = site.settings["mix"]
    inside = isinstance(mixer, Mapping) and mixer.get("position") is not None

    def change(block: BlockSpec) -> BlockSpec:
        mix = block.mix
        if mix is None or (relative is None and (mix.relative is None or inside)):
            return block
        own = mix.relative
        try:
            # "heads" is for biases that a whole stack shares, and this one is the layer's own
            usual = {"both": site.usual["both"]}
            position = None if relative is None else settle(own, relative, "position", usual, RelativeSpec)
            return block.replace(mix=mix.locate(position))
        except SpecError as error:
            refusals.append(error)
            return block

    located = site.each_block(change, embedding=site.stack.embedding.locate(absolute), bias=None)
    kinds = {mix.relative.kind for block in located.stack.layout() if (mix := block.mix) and mix.relative}
    if refusals and kinds != ({relative["kind"]} if relative else set()):  # somebody had to take them, or to let go
        raise refusals[0]
    return located


def _insist_on_what_was_said(sites: list[Site], done: Mapping[str, StackSpec], slot: str, said: Said) -> None:
    """Refuse a setting that no place could leave as it was said: a decoder's mixer that is not to be causal."""
    for name, wanted in said.items():
        if name == "kind" or isinstance(wanted, dict | list):
            continue
        found = [
            (site, getattr(part, name))
            for site in sites
            for part in parts(done[site.name], slot)
            if name in part.fields()
        ]
        if found and not any(value == wanted or getattr(value, "kind", value) == wanted for _, value in found):
            site, value = found[0]
            raise SpecError(
                f"{slot}.{name}: {show_value(wanted)} can't stand in {site.family}, whose {site.name} needs "
                f"{show_value(value)}",
                f"leave {slot}.{name} out",
            )


def _insist_on_a_link(model: ModelSpec, family: str) -> None:
    """Refuse a decoder that never looks at what the encoder read."""
    assert model.decoder is not None
    mixers = [mixer for block in model.decoder.layout() for mixer in (block.mix, block.cross)]
    if not any(mixer is not None and mixer.over_memory for mixer in mixers):
        kinds = sorted({mixer.kind for mixer in mixers if mixer is not None}) or ["attention"]
        raise SpecError(
            f"nothing in {family}'s decoder looks at the source any more: what mixes there is {', '.join(kinds)}",
            f"mix={kinds[0]} cross=attention",
        )
