"""The only model class: an encoder, a decoder, or both, and a head.

A model gives logits; it never computes a loss and never keeps what it saw. Search needs `step` and `state.select` and
nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Never, Self

import torch
from pydantic import model_validator
from torch import Tensor

from regard.core.block import Sublayer, forgetful
from regard.core.blueprint import blueprint
from regard.core.factors import Factors, Scored, ScoreTable, StatefulHead, WordHead
from regard.core.inputs import Extras, Inputs
from regard.core.mask import Mask, choose
from regard.core.mixer import Mixer, Part
from regard.core.packed import count_weights
from regard.core.padding import Valid, check_valid
from regard.core.probe import Probe, Sight, join_probes
from regard.core.registry import Kinds
from regard.core.role import HeadSpec, InitSpec, insist_on_memory
from regard.core.spec import Spec, build_optional
from regard.core.stack import Stack, StackSpec
from regard.core.state import Group, Memory, Progress, State
from regard.core.usable import Usable
from regard.core.view import View
from regard.errors import InputError, SpecError

# positions that a state reads at once; the time is within 3% of that of one piece at 4,096, and within 10% at 8,192
CHUNK = 512


class Model(Usable):
    """Tokens (or images) to logits.

    >>> import regard, torch
    >>> model = regard.preset("gpt2", width=32, depth=2, heads=2, vocabulary=100).build().eval()
    >>> model(torch.tensor([[5, 6, 7]])).shape  # rows, positions, vocabulary
    torch.Size([1, 3, 100])
    >>> state = model.start(1)  # for going on token by token
    >>> model.step(torch.tensor([5]), state).shape
    torch.Size([1, 100])
    """

    def __init__(self, spec: ModelSpec, encoder: Stack | None, decoder: Stack | None, head: Part | None) -> None:
        super().__init__()
        self.spec = spec
        self.encoder, self.decoder, self.head = encoder, decoder, head
        for path, module in self.named_modules():
            if isinstance(module, Part):
                # a mixer goes by its sublayer's name: decoder.blocks.3.cross, not ….cross.inner
                module.path = path.removesuffix(".inner").replace(".inner.members.", ".").replace(".members.", ".")

    def encode(
        self, tokens: Tensor | Inputs, valid: Valid = None, *, probe: Probe | None = None, **strange: Never
    ) -> Memory | None:
        """What the decoder will look at, each sentence's real tokens first; None for a decoder-only model."""
        inputs = Inputs.of(tokens, valid=valid, probe=probe, **strange)
        if self.encoder is None:
            return None
        view = self._view(self.encoder, inputs)
        last = layers[-1].mixer if (layers := self.encoder.layers()) else None
        ending = last.start(view.mask.rows, view) if last is not None and last.leaves_final else None
        parts = tuple(Group(parts=(ending if layer is layers[-1] else None, None)) for layer in layers)
        states = self.encoder(inputs.tokens, view, Group(parts=parts))
        return Memory.of(view.mask, states, None if ending is None else ending.summary(), inputs.tokens)

    def forward(
        self,
        tokens: Tensor | Inputs,
        memory: Memory | Inputs | None = None,
        *,
        valid: Valid = None,
        documents: Tensor | None = None,
        extras: Extras | None = None,
        probe: Probe | None = None,
        **strange: Never,
    ) -> Tensor:
        """Logits for every position, teacher-forced: (batch, time, vocabulary) where the head is a vocabulary.

        It takes an `Inputs` or what makes one. What the encoder is to read may stand in the memory's place.
        """
        inputs = Inputs.of(tokens, memory, valid=valid, documents=documents, extras=extras, probe=probe, **strange)
        view = self._view(self._main, inputs)
        return self._answer(self._main(inputs.tokens, view), view)

    def features(self, inputs: Tensor | Inputs) -> Tensor:
        """What the head is given: (batch, time, width). For a loss that projects to the vocabulary by itself."""
        inputs = Inputs.of(inputs)
        return self._main(inputs.tokens, self._view(self._main, inputs))

    def answer(self, features: Tensor, *, valid: Valid = None) -> Tensor:
        """What `forward` gives, from features that were computed before. For several losses on the same features."""
        check_valid(valid, features.shape[0], features.shape[1])
        return self._answer(features, View.of(features, valid, probe=self.watcher))

    def factors(self, inputs: Tensor | Inputs, keep: Tensor) -> Scored:
        """What the logits of some positions are a product of; `keep`, (batch, time): which. For losses."""
        if self.head is not None and self.head.recalls:  # a mixture with what a memory holds is no product
            return ScoreTable(self.forward(inputs)[keep])
        return self.scored(choose(self.features(inputs), keep))

    def scored(self, features: Tensor) -> Factors:
        """What the logits are a product of, from features that were computed before."""
        if not isinstance(self.head, WordHead):
            raise InputError("this model has no head that scores words")
        return self.head.factors(features)

    def start(self, rows: int, memory: Memory | None = None, *, room: int = 0) -> Progress:
        """The state before the first token; `room`: positions to allocate ahead."""
        stack = self._steppable()
        if memory is not None:
            memory = memory.serve(rows)
        elif self.encoder is not None:
            raise InputError("this model translates from a memory", "start(rows, encode(source))")
        view = View(Mask(rows, 0, device=self.device), memory, self.watcher, room=room, dtype=self.dtype)
        head = self.head.start(rows, view) if isinstance(self.head, StatefulHead) else None
        return Progress(blocks=stack.start(rows, view), memory=memory, head=head, dtype=view.dtype)

    def step(
        self,
        tokens: Tensor | Inputs,
        state: Progress,
        *,
        valid: Valid = None,
        probe: Probe | None = None,
        **strange: Never,
    ) -> Tensor:
        """Feed one token a row, (rows,), or more, (rows, time); logits after the last real one: (rows, vocabulary)."""
        inputs = Inputs.of(tokens, valid=valid, probe=probe, **strange)
        if inputs.tokens.dim() == 1:
            inputs = replace(inputs, tokens=inputs.tokens[:, None])
        if self._may_cut(inputs, state):
            return self._read_in_chunks(inputs, state)
        x, view = self._read(inputs, state)
        if state.head is not None:  # it must hear of every position
            return view.mask.take_end(self._answer(x, view, state.head))[:, 0]
        return self._answer(view.mask.take_end(x), view)[:, 0]

    def advance(self, inputs: Tensor | Inputs, state: Progress) -> Tensor:
        """Feed a chunk, (rows, time), and move the state on; the features of all of it: (rows, time, width)."""
        x, view = self._read(Inputs.of(inputs), state)
        if state.head is not None:
            self._answer(x, view, state.head)
        return x

    def rerun(self, stack: Literal["encoder", "decoder"], number: int, x: Tensor, inputs: Inputs) -> Tensor:
        """One block again, from what entered it: (batch, time, width). For whoever asks for more of a call later."""
        if (main := self.encoder if stack == "encoder" else self.decoder) is None:
            raise InputError(f"this model has no {stack}")
        return main.rerun(number, x, self._view(main, inputs))

    def _read(self, inputs: Inputs, state: Progress) -> tuple[Tensor, View]:
        stack = self._steppable()
        view = self._view(stack, inputs, state)
        x = stack(inputs.tokens, view, state.blocks)
        state.advance(view.mask)
        return x, view

    def _may_cut(self, inputs: Inputs, state: Progress) -> bool:
        """Whether tokens are so many that a state reads them in chunks, and nobody needs them in one piece."""
        tokens = inputs.tokens
        if tokens.dim() != 2 or tokens.shape[1] <= CHUNK or torch.is_grad_enabled() or torch.compiler.is_compiling():
            return False
        if self.limit is not None and state.length + tokens.shape[1] > self.limit:
            return False  # what doesn't fit is refused before the state has moved
        whole = (inputs.probe, self.watcher, inputs.edges, inputs.owners, state.head)
        if inputs.extras or any(part is not None for part in whole):
            return False
        self._steppable().measure(inputs)  # pieces of what doesn't fit together may well do so
        return not any(part.drifts for part in self.modules() if isinstance(part, Part))

    def _read_in_chunks(self, inputs: Inputs, state: Progress) -> Tensor:
        """Logits after the last real token of each row; what a chunk takes beside the state is gone before the next."""
        last: Tensor | None = None
        for chunk in inputs.cut(CHUNK):
            x, view = self._read(chunk, state)
            end = view.mask.take_end(x)  # (rows, 1, width)
            # a row that has no token in this chunk ended in an earlier one, or hasn't begun
            last = end if last is None else torch.where(view.mask.counts[:, None, None] > 0, end, last)
        assert last is not None
        return self._answer(last, view)[:, 0]

    @property
    def endless(self) -> bool:
        """Whether it can read on for ever: what it remembers doesn't grow, and no table of positions runs out."""
        return self.limit is None and not any(mixer.grows for mixer in self.mixers)

    @property
    def limit(self) -> int | None:
        """Positions that the stack which answers can tell apart; None: no end."""
        return self.spec.main.limit()

    @property
    def mixers(self) -> list[Mixer]:
        """All that mixes positions in the stack that answers."""
        parts = (part for block in self._main.layers() for part in (block.mixer, block.crosser))
        return [part for part in parts if part is not None]

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The type of its weights, in which it also remembers; a packed weight has another, and says nothing."""
        return next((p.dtype for p in self.parameters() if p.is_floating_point()), torch.float32)

    @property
    def alignments(self) -> tuple[str, ...]:
        """Names under which a probe sees what the decoder looks at in the memory."""
        parts = [*self.mixers, *([] if self.head is None else [self.head])]
        return tuple(f"{part.path}.weights" for part in parts if part.recalls)

    def reset(self) -> None:
        """Start all weights anew, as the spec's scheme and the parts say."""
        with torch.no_grad():
            self.spec.init.fill(self, sum(isinstance(module, Sublayer) for module in self.modules()))
            for module in self.modules():
                if isinstance(module, Part):
                    module.reset()

    def parameter_count(self) -> int:
        """Weights, each counted once however often it is used; routing biases among them."""
        return count_weights(self)

    @property
    def _main(self) -> Stack:
        stack = self.decoder if self.decoder is not None else self.encoder
        assert stack is not None
        return stack

    def _steppable(self) -> Stack:
        if self.decoder is None:
            raise InputError("an encoder has no next token to predict", "a model with a decoder")
        return self.decoder

    def _answer(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        if self.head is None:
            return x
        y = self.head(x, view) if state is None else self.head(x, view, state)
        if view.mask.documents is not None and y.dim() < x.dim() and len(y) != view.mask.apart.mask.rows:
            raise InputError("the head gives one answer a row, and these rows pack documents", "one document a row")
        return view.see("head", "logits", y)

    def _view(self, stack: Stack, inputs: Inputs, state: Progress | None = None) -> View:
        rows, time = stack.measure(inputs)
        if state is None:
            memory = self._recall(inputs.memory, rows)
        elif state.rows not in (None, rows):  # None: nothing in it remembers, so any rows will do
            raise InputError(f"{rows} rows of tokens for a state of {state.rows} rows")
        elif inputs.memory is not None:
            raise InputError("a step looks at the memory that its state began with", "start(rows, memory)")
        else:
            memory = state.memory
        past = 0 if state is None else state.past
        mask = Mask(rows, time, inputs.valid, past, inputs.tokens.device, inputs.documents)
        if self.watcher is not None:
            self.watcher.begin(Sight(self._sights, mask, state is None))
        if inputs.probe is not None:
            past_names = frozenset[str]() if state is None else self._early
            inputs.probe.begin(Sight(self._sights, mask, state is None, past_names))
        probe = join_probes(inputs.probe, self.watcher)
        return View(mask, memory, probe, inputs.extras, edges=inputs.edges, dtype=(state or self).dtype)

    def _recall(self, memory: Memory | Inputs | None, rows: int) -> Memory | None:
        """What the rows of a call look at, read by the encoder now if it wasn't before."""
        if isinstance(memory, Inputs):
            if self.encoder is None or self.decoder is None:
                raise InputError("there is something to read for a memory, and this model has one stack", "join them")
            memory = self.encode(memory)
        return None if memory is None else memory.serve(rows)


class ModelSpec(Spec):
    """A whole model: its stacks, its head, and how its weights start.

    >>> import regard
    >>> spec = regard.preset("gpt2", width=32, depth=2, heads=2, vocabulary=100)
    >>> spec == regard.ModelSpec.parse(spec.model_dump(mode="json"))  # a spec is data
    True
    >>> spec.build().parameter_count()
    61440
    """

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = "model"
    kind: Literal["model"] = "model"
    encoder: StackSpec | None = None
    """The stack that reads the source, or that reads alone where there is no decoder."""
    decoder: StackSpec | None = None
    """The stack that writes, each position seeing only what came before it."""
    head: HeadSpec | None = None
    """The head turns the last vectors into an answer."""
    share: bool = False
    """The encoder and the decoder use one table of token vectors."""
    init: InitSpec
    """The weights start in this way."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.encoder is None and self.decoder is None:
            raise ValueError("a model needs an encoder, a decoder, or both")
        if self.share and (self.encoder is None or self.decoder is None):
            raise ValueError("share: only an encoder and a decoder can share token vectors")
        for name, stack in (("encoder", self.encoder), ("decoder", self.decoder)):
            left = self.encoder.width if self.encoder and name == "decoder" else None
            for number, block in enumerate(stack.layout() if stack else []):
                for mixer in (block.mix, block.cross):
                    wanted = mixer.memory_width(stack.width) if mixer and stack else None
                    insist_on_memory(f"{name}.blocks.{number}", wanted, left)
        left = self.encoder.width if self.encoder and self.decoder else None
        insist_on_memory("head", self.head.memory_width(self.main.width) if self.head else None, left)
        return self

    @property
    def family(self) -> dict[str, Any] | None:
        """The settings of the family that composed it; None: nobody noted them, or it was changed since."""
        return vars(self).get("_family")

    def note_family(self, settings: Mapping[str, Any] | None) -> Self:
        """Note where a spec comes from. That is no field of it: two that describe one model stay equal."""
        vars(self)["_family"] = None if settings is None else dict(settings)
        return self

    @property
    def main(self) -> StackSpec:
        """The stack that answers: the decoder, where there is one."""
        stack = self.decoder if self.decoder is not None else self.encoder
        assert stack is not None
        return stack

    def limits(self, training: bool = False) -> dict[str, int]:
        """Positions that each stack can tell apart, by its name; one that has no end isn't there."""
        stacks = {"encoder": self.encoder, "decoder": self.decoder}
        ends = {name: stack.limit(training) for name, stack in stacks.items() if stack is not None}
        return {name: end for name, end in ends.items() if end is not None}

    def resize(self, source: int, target: int) -> ModelSpec:
        """The same model for so many tokens on each side; tables of two sizes can't be one."""
        sizes = {"encoder": source if self.decoder is not None else target, "decoder": target}
        stacks = {"encoder": self.encoder, "decoder": self.decoder}
        changes: dict[str, Any] = {
            side: stack.replace(embedding=stack.embedding.resize(sizes[side]))
            for side, stack in stacks.items()
            if stack is not None and stack.embedding.token_count != sizes[side]
        }
        if self.head is not None:
            changes["head"] = self.head.resize(target)
        changes |= {} if source == target else {"share": False}
        return self.replace(**changes)

    def grow(self, source: int, target: int) -> ModelSpec:
        """The same model with room for so many tokens on each side, if it has less."""
        sizes = {"encoder": source, "decoder": target}
        stacks = {"encoder": self.encoder, "decoder": self.decoder}
        held = {side: (stack and stack.embedding.token_count) or sizes[side] for side, stack in stacks.items()}
        if all(held[side] >= sizes[side] for side in sizes):
            return self
        return self.resize(max(held["encoder"], source), max(held["decoder"], target))

    def build(self, device: torch.device | str = "cpu") -> Model:
        """The model with fresh weights; on the device `meta`, its shape alone.

        Shapes come first and memory after, so a spec that can't be built costs nothing.
        """
        try:
            with blueprint():
                model = self._assemble()
        except RuntimeError as error:
            raise SpecError(f"no machine can hold such a model: {error}", "smaller sizes") from None
        if torch.device(device).type != "meta":
            size = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
            try:
                model.to_empty(device=device)
            except (RuntimeError, MemoryError):
                raise SpecError(f"there is no memory for such a model: {size:,} bytes of weights") from None
            model.reset()
        return model

    def _assemble(self) -> Model:
        decoder: Stack | None = build_optional(self.decoder)
        if decoder is not None:
            for number, block in enumerate(decoder.layers()):
                if block.mixer is not None and not block.mixer.causal:
                    raise SpecError(f"decoder.blocks.{number}.mix sees later positions, and a decoder must not")
                if block.mixer is not None and not block.mixer.steps:
                    block.mixer.path = f"decoder.blocks.{number}.mix"
                    raise forgetful(block.mixer)
        lent = decoder.embedding.table if decoder is not None and self.share else None
        encoder: Stack | None = build_optional(self.encoder, lent)
        main, spec = (decoder, self.decoder) if decoder is not None else (encoder, self.encoder)
        assert main is not None and spec is not None
        return Model(self, encoder, decoder, build_optional(self.head, spec.width, main.embedding.table))
