"""Folders in Hugging Face layout that are damaged, strange or hostile: one clear error, and nothing is run."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer as Engine
from tokenizers import models

from regard.errors import CheckpointError, DiskError
from regard.hub.load import import_folder, match_family
from regard.hub.save import config_of, export_folder, match_layouts
from regard.models import families, presets
from tests.cli.test_cli import regard

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 50,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole one."""
    torch.manual_seed(0)
    plan = match_family(CONFIG)
    export_folder(plan, plan.spec.build(), tmp_path / "model")
    return tmp_path / "model"


@contextmanager
def limited(room: int) -> Iterator[None]:
    """A disk that takes files of so many bytes and no larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def change(folder: Path, **keys: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def swap(folder: Path, drop: str = "", **tensors: torch.Tensor) -> None:
    path = folder / "model.safetensors"
    kept = {name: tensor for name, tensor in load_file(path).items() if name != drop}
    save_file(kept | {name.replace("__", "."): tensor for name, tensor in tensors.items()}, path)


def test_a_whole_folder_loads_without_a_copy(folder: Path) -> None:
    found = import_folder(folder)
    assert found.unused == []
    assert found.model(torch.randint(50, (2, 5))).shape == (2, 5, 50)


@pytest.mark.parametrize("room", [1_000, 0])  # too little for the weights; for anything
def test_an_export_that_the_disk_will_not_take_is_told_and_leaves_nothing(tmp_path: Path, room: int) -> None:
    plan = match_family(CONFIG)
    with limited(room), pytest.raises(DiskError, match="out: not written, a file may not be so large"):
        export_folder(plan, plan.spec.build(), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_made_is_the_disks_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    plan = match_family(CONFIG)
    with pytest.raises(DiskError, match="Not a directory"):
        export_folder(plan, plan.spec.build(), tmp_path / "file" / "out")


def test_all_problems_are_told_at_once_with_the_nearest_row(folder: Path) -> None:
    swap(
        folder,
        "model.norm.weight",
        model__layers__0__self_attn__q_prj__weight=torch.zeros(3),
        model__layers__1__mlp__up_proj__weight=torch.zeros(48, 31),
    )
    with pytest.raises(CheckpointError) as caught:
        import_folder(folder)
    told = str(caught.value)
    assert "model.layers.0.self_attn.q_prj.weight  (model.layers.{i}.self_attn.q_proj ->" in told
    assert "missing:\n    model.norm.weight" in told
    assert "model.layers.1.mlp.up_proj.weight (48, 31) -> decoder.blocks.1.ffn.inner.up.weight (48, 32)" in told


def test_a_part_that_the_config_denies_is_told(folder: Path) -> None:
    swap(folder, model__layers__0__self_attn__q_proj__bias=torch.zeros(32))
    with pytest.raises(CheckpointError, match=r"q_proj.bias  .the model that config.json describes has no such part"):
        import_folder(folder)


def test_values_that_are_not_finite_are_told(folder: Path) -> None:
    swap(folder, "model.norm.weight", model__norm__weight=torch.full((32,), torch.nan))
    with pytest.raises(CheckpointError, match=r"aren't finite:\n    model.norm.weight"):
        import_folder(folder)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"model_type": "lama"}, "did you mean 'llama'"),
        ({"model_type": ["llama"]}, "isn't known here"),
        ({"auto_map": {"AutoModel": "modeling_evil.Evil"}}, "nothing in a folder is ever run"),
        ({"architectures": ["EvilModel"]}, "none of LlamaForCausalLM"),
        ({"mlp_bias": True}, "only False can be computed"),
        ({"hidden_act": "mish"}, "hidden_act: 'mish' is none of"),
        ({"rope_parameters": None, "rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "longrope"),
        ({"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0, "evil": 1}}, "has no 'evil'"),
        ({"hidden_size": -1}, "width"),
        ({"num_hidden_layers": 10**9}, "missing|too|depth"),
    ],
)
def test_a_config_that_cannot_be_met_is_refused(folder: Path, keys: dict[str, Any], words: str) -> None:
    change(folder, **keys)
    with pytest.raises(Exception, match=words) as caught:
        import_folder(folder)
    assert type(caught.value).__module__ == "regard.errors"


def test_code_beside_the_weights_is_never_run(folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    code = f"open({str(mark)!r}, 'w').write('x')"
    for name in ("modeling_evil.py", "configuration_evil.py", "__init__.py", "conftest.py"):
        (folder / name).write_text(code)
    hostile = "{{ ''.__class__.__mro__[1].__subclasses__() }}" + "{% for i in range(10**9) %}x{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": hostile}))
    import_folder(folder)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "a/../../x.safetensors", "x.bin", ""])
def test_a_weight_map_leads_nowhere_else(folder: Path, name: str) -> None:
    (folder / "model.safetensors").rename(folder.parent / "model.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"model.norm.weight": name}}))
    with pytest.raises(CheckpointError, match="isn't the name of a file beside it"):
        import_folder(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "README.md", "1_Pooling/config.json"])
def test_a_link_that_leads_elsewhere_is_refused_by_name(folder: Path, name: str) -> None:
    elsewhere = folder.parent / "elsewhere"
    (folder / name).parent.mkdir(exist_ok=True)
    elsewhere.write_bytes((folder / name).read_bytes() if (folder / name).exists() else b"{}")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(elsewhere)
    with pytest.raises(CheckpointError, match=f"{name}: a link to {elsewhere}"):
        import_folder(folder)


def test_a_linked_folder_of_modules_is_refused(folder: Path) -> None:
    (folder.parent / "other").mkdir()
    (folder.parent / "other" / "config.json").write_text("{}")
    (folder / "1_Pooling").symlink_to(folder.parent / "other")
    with pytest.raises(CheckpointError, match=r"1_Pooling/config\.json: a link"):
        import_folder(folder)


def test_a_tokenizer_larger_than_its_model_is_refused_by_name(folder: Path) -> None:
    engine = Engine(models.WordLevel({f"w{n}": n for n in range(50)}, unk_token="w0"))
    engine.save(str(folder / "tokenizer.json"))
    assert import_folder(folder).tokenizers is not None
    engine.add_special_tokens(["[PAD]", "[MORE]"])
    engine.save(str(folder / "tokenizer.json"))
    told = "vectors for 50 tokens, and its tokenizer gives numbers up to 51: '\\[PAD\\]' is 50"
    with pytest.raises(CheckpointError, match=told):
        import_folder(folder)
    done = regard("generate", str(folder), "--prompt", "w1")
    assert done.returncode == 4
    assert "[PAD]" in done.stderr


@pytest.fixture
def cache(folder: Path) -> Path:
    """The same model as Hugging Face's own cache keeps it."""
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{}")
    store = folder.parent / "models--some--one"
    snapshot = store / "snapshots" / "c0ffee"
    (store / "blobs").mkdir(parents=True)
    for number, path in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        name = path.relative_to(folder)
        path.rename(store / "blobs" / f"digest{number}")
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        up = "../" * (len(name.parts) + 1)
        (snapshot / name).symlink_to(f"{up}blobs/digest{number}")
    return snapshot


def test_links_inside_the_cache_of_hugging_face_are_followed(cache: Path) -> None:
    found = import_folder(cache)
    assert found.model(torch.randint(50, (2, 5))).shape == (2, 5, 50)
    assert set(found.origin.files) == {"config.json", "1_Pooling/config.json"}


def test_a_cache_whose_blob_leads_elsewhere_is_refused(cache: Path) -> None:
    blob = (cache / "model.safetensors").resolve()
    blob.rename(cache / "moved")
    blob.symlink_to(cache / "moved")
    with pytest.raises(CheckpointError, match="a link to"):
        import_folder(cache)


def test_the_names_of_the_first_berts_are_known(tmp_path: Path) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    plan = match_family({"model_type": "bert", "vocab_size": 50, "max_position_embeddings": 20, **sizes})
    export_folder(plan, plan.spec.build(), tmp_path / "bert")
    whole = import_folder(tmp_path / "bert").model.state_dict()
    path = tmp_path / "bert" / "model.safetensors"
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    renamed = {}
    for name, tensor in load_file(path).items():
        stem, _, tail = name.rpartition("LayerNorm.")
        renamed[stem + old[f"LayerNorm.{tail}"] if stem else name] = tensor
    assert any(name.endswith(".gamma") for name in renamed)
    save_file(renamed, path)
    found = import_folder(tmp_path / "bert").model.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in whole.items())


def test_shards_are_one_model(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    halves = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    whole = import_folder(folder).model.state_dict()
    for file, part in halves.items():
        save_file({name: tensors[name] for name in part}, folder / file)
    index = {name: file for file, part in halves.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    (folder / "model.safetensors").unlink()
    found = import_folder(folder).model.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in whole.items())
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match="model-00002"):
        import_folder(folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.00.pth"])
def test_what_can_run_code_when_it_is_read_is_refused_with_a_way_out(folder: Path, name: str) -> None:
    (folder / "model.safetensors").rename(folder / name)
    with pytest.raises(CheckpointError, match="can run code") as caught:
        import_folder(folder)
    assert "LlamaForCausalLM.from_pretrained('SAFE').save_pretrained('SAFE')" in str(caught.value.hint)


def test_the_command_that_converts_a_pickle_quotes_paths_and_repeats_no_strange_name(folder: Path) -> None:
    place = folder.rename(folder.parent / "my models")
    (place / "model.safetensors").rename(place / "pytorch_model.bin")
    change(place, architectures=["x; import evil"])
    with pytest.raises(CheckpointError) as caught:
        import_folder(place)
    assert f"cp -r '{place}' SAFE" in str(caught.value.hint)
    assert "evil" not in str(caught.value.hint)


def test_damaged_files_end_in_an_answer_or_an_error(folder: Path) -> None:
    """Every truncation and many flips of both files."""
    random = torch.Generator().manual_seed(0)
    for name in ("config.json", "model.safetensors"):
        whole = (folder / name).read_bytes()
        places = torch.randint(min(len(whole), 4000), (60,), generator=random).tolist()
        for at in places:
            for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :]):
                (folder / name).write_bytes(damaged)
                try:
                    import_folder(folder)
                except Exception as error:  # whatever comes must be one of ours
                    assert type(error).__module__ == "regard.errors", (name, at, error)
        (folder / name).write_bytes(whole)


LOADED = """
import sys
from pathlib import Path
from regard.hub.load import import_folder
from regard.host.machine import peak_memory

import_folder(Path(sys.argv[1]))  # whatever is loaded once, is loaded now
before = peak_memory()
model = import_folder(Path(sys.argv[2])).model
print(peak_memory() - before)
"""
LARGE: dict[str, dict[str, Any]] = {
    "llama": {"hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8, "intermediate_size": 1408},
    # whose matrices lie on their side, three of them in one
    "gpt2": {"n_embd": 512, "n_layer": 8, "n_head": 8, "n_positions": 512, "architectures": None},
}


@pytest.mark.parametrize("kind", LARGE)
def test_loading_takes_the_file_and_no_second_copy(folder: Path, tmp_path: Path, kind: str) -> None:
    plan = match_family(CONFIG | LARGE[kind] | {"model_type": kind, "vocab_size": 32000})
    export_folder(plan, plan.spec.build(), tmp_path / "large")
    size = (tmp_path / "large" / "model.safetensors").stat().st_size
    command = [sys.executable, "-c", LOADED, str(folder), str(tmp_path / "large")]
    taken = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert size > 150 * 2**20
    # the process itself grows by a little, whatever the size; a copy would be twice the file
    assert taken <= 1.1 * size + 64 * 2**20, (taken, size)


# presets that no checkpoint of others is like
OURS = ("hybrid", "ssm", "gpt3-small", "transformer-base", "transformer-big", "mean-pool")
PUBLISHED = {name: family for name, family in presets().items() if family.layouts and name not in OURS}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_whole_table_maps_with_no_name_left_over(name: str) -> None:
    """Every preset at its full size, without memory: each of our tensors has a row, and theirs come back as ours."""
    family = PUBLISHED[name]
    settings = family.settings.parse(family.tree(name, {}))
    plan = match_layouts(family, settings, name)
    table = plan.table()
    ours = [one for entry in table.entries for one in entry.ours]
    assert sorted(ours) == sorted(table.shapes)
    assert len(table.names()) == len(set(table.names()))
    again = match_family(config_of(plan), names=table.names())
    assert again.spec.build("meta").parameter_count() == family.compose(settings).build("meta").parameter_count()


def test_every_model_type_has_one_family() -> None:
    kinds = [kind for family in families().values() for kind in family.layouts]
    assert len(kinds) == len(set(kinds))
    wanted = (
        "openai-gpt gpt2 bert modernbert llama mistral mixtral qwen2 qwen3 deepseek_v3 gpt_neo mamba marian t5 vit deit"
    )
    assert set(wanted.split()) <= set(kinds)
