"""Every mixer in the folder, in every variant that its settings allow: what the laws run on here.

A new file in `regard/mixers` is found by itself. `EXTRA` has what one change to the usual settings doesn't reach.
"""

from __future__ import annotations

from typing import Any

import regard.mixers  # noqa: F401
from regard.core.mixer import MixerSpec
from regard.errors import SpecError
from regard.laws.subject import WIDTH, Subject
from regard.laws.variant import label, list_bases, make_small, vary

EXTRA: list[dict[str, Any]] = [
    {"kind": "attention", "heads": 4, "kv_heads": 2, "causal": True},
    {"kind": "attention", "heads": 4, "kv_heads": 1, "causal": True, "position": "rotary"},
    {"kind": "attention", "heads": 4, "kv_heads": 2, "causal": True, "window": 3, "position": "rotary"},
    {"kind": "attention", "heads": 4, "causal": True, "window": 3, "position": "alibi"},
    {"kind": "attention", "heads": 4, "causal": True, "window": 4, "position": "bucketed"},
    {"kind": "attention", "heads": 4, "causal": True, "window": 1},
    {"kind": "attention", "heads": 3, "size": 6, "causal": True, "norm": "rmsnorm", "position": "alibi"},
    {"kind": "attention", "heads": 4, "window": 3},
    {"kind": "attention", "heads": 4, "position": {"kind": "bucketed", "both": True}},
    {"kind": "attention", "heads": 4, "kv_heads": 2, "causal": True, "position": "rotary-2d"},
    {"kind": "attention", "heads": 4, "position": "rotary-2d", "temperature": True, "itself": False},
    {"kind": "attention", "heads": 4, "window": 3, "itself": False},
    {"kind": "attention", "heads": 4, "over": "memory", "temperature": True},
    {"kind": "attention", "heads": 4, "over": "memory", "kv_heads": 2},
    {"kind": "attention", "heads": 4, "over": "memory", "memory": 24},
    {"kind": "attentive", "memory": 24, "start": "mean"},
    {"kind": "pool", "over": "memory", "memory": 24},
    *(
        {"kind": "attention", "heads": 2, "causal": True, "position": {"kind": "rotary", "scaling": scaling}}
        for scaling in (
            {"kind": "llama3", "context": 8},
            {"kind": "linear", "factor": 2.0},
            {"kind": "yarn", "factor": 4.0, "context": 8},
            {"kind": "dynamic", "factor": 2.0, "context": 512},  # past its context it departs, by nature
        )
    ),
    {"kind": "latent", "heads": 4, "rank": 8, "query_rank": 12, "size": 6, "rotary": 4, "value": 5},
    {"kind": "recurrent", "cell": "gru", "layers": 2, "start": "mean"},
    {"kind": "recurrent", "cell": "lstm", "layers": 3, "direction": "both"},
    *({"kind": "recurrent", "cell": "rnn", "skip": skip} for skip in (1, 3, 20)),
    {"kind": "recurrent", "cell": "lstm", "layers": 2, "skip": 4, "start": "final"},
    *({"kind": "recurrent", "skip": 2, "direction": direction} for direction in ("backward", "both", "apart")),
    {"kind": "convolution", "kernel": 2, "causal": True},
    {"kind": "convolution", "kernel": 4, "dilation": 3, "causal": True},
    {"kind": "convolution", "kernel": 4, "dilation": 2, "gated": False},
    {"kind": "attention", "heads": 4, "kv_heads": 2, "causal": True, "window": 3, "position": "alibi", "hard": True},
    {"kind": "attention", "heads": 4, "over": "memory", "hard": True},
    {"kind": "attentive", "when": "after", "score": "diagonal", "feed": True},
    {"kind": "attentive", "when": "after", "score": "dot", "hard": True},
    {"kind": "attentive", "when": "after", "feed": True, "layers": 2, "cell": "lstm", "start": "bridge"},
    {"kind": "attentive", "when": "before", "feed": True, "query": "both", "score": {"kind": "reduced", "rank": 4}},
    {"kind": "attentive", "when": "after", "score": "location", "readout": "maxout"},
    {"kind": "attentive", "cell": "lstm", "gate": True, "readout": "deep", "doubly": 1.0, "start": "mean"},
    {"kind": "attentive", "when": "after", "hard": "sampled", "doubly": 0.5, "memory": 24},
    {"kind": "turing", "slots": 8, "size": 5, "reads": 2, "writes": 3, "shift": 2},
    {"kind": "mamba", "convolution": 1, "states": 3},
    {"kind": "ssm", "states": 2},
    {"kind": "masked", "columns": 3, "channels": 2, "hidden": 6},
    {"kind": "masked", "columns": 2, "kernel": 5, "inputs": 3},
    {"kind": "masked", "columns": 5, "channels": 2, "kernel": 5, "mask": "A"},
    {"kind": "row", "columns": 3, "kernel": 5},
    {"kind": "row", "columns": 2, "channels": 2, "kernel": 1},
    {"kind": "row", "columns": 1, "channels": 3},
    {"kind": "diagonal", "columns": 3},
    {"kind": "diagonal", "columns": 2, "channels": 2},
    {"kind": "diagonal", "columns": 1},
]


def every_mixer() -> list[MixerSpec]:
    """Whatever can be built at the laws' width."""
    plain = (make_small(MixerSpec.parse(kind)) for kind in sorted(MixerSpec.kinds))
    specs = [variant for spec in plain for base in list_bases(spec) for variant in vary(base)]
    built = []
    for spec in dict.fromkeys([*specs, *map(MixerSpec.parse, EXTRA)]):
        try:
            spec.build(WIDTH)
        except SpecError:
            continue  # settings that exclude each other
        built.append(spec)
    return built


def put_on_trial(spec: MixerSpec) -> Subject:
    """Ours are exact where the law allows rounding, but for the one that goes through a Fourier transform."""
    return Subject.describe(spec, label(spec), rounding=1e-6 if spec.kind == "ssm" else 0.0)


SPECS = every_mixer()
SUBJECTS = [put_on_trial(spec) for spec in SPECS]
