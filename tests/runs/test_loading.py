"""Loading a run for use: what the model needs is read and compared once, and nothing else is touched."""

from __future__ import annotations

import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from regard.core.blueprint import blueprint
from regard.core.mixer import Part
from regard.core.weights import is_finite, place
from regard.errors import CheckpointError, Damage, RegardWarning
from regard.host.tensors import ALIGNED, digest_file, map_tensors, pack_tensors, read_tensors
from regard.models import preset
from regard.runs.load import load_bundle, load_model, read_weights, usage
from regard.runs.resolve import resolve
from regard.train.checkpoint import RESUMING, Store, _content, inspect, verify
from tests.train.small import begun, trainer


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints at its steps 2 and 4."""
    run = begun(tmp_path_factory.mktemp("loading") / "run", "train.steps=4", "train.evaluate=0", "train.save=2")
    trainer(run).run()
    return run.folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def flip(path: Path) -> None:
    """Change one bit in the middle: the size stays, and so does the header."""
    content = bytearray(path.read_bytes())
    content[3 * len(content) // 4] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("name", RESUMING[:2])
@pytest.mark.parametrize("change", [flip, Path.unlink], ids=["flipped", "gone"])
def test_what_only_training_needs_may_be_damaged(run: Path, name: str, change: object) -> None:
    expected = load_bundle(str(run)).model.state_dict()
    change(run / "checkpoints" / "step-4" / name)  # type: ignore[operator]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RegardWarning)
        found = load_bundle(f"{run}@latest").model.state_dict()
    assert all(torch.equal(found[key], expected[key]) for key in expected)
    told: list[str] = []
    newest = Store(run / "checkpoints", warn=told.append).latest()  # and it is found by who goes on
    assert newest is not None and newest.step == 2
    assert name in told[0]


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "state.json", "spec.json", "lexicon.json"])
def test_a_damaged_file_of_the_model_is_found_when_it_is_read(run: Path, name: str) -> None:
    flip(run / "checkpoints" / "step-4" / name)
    for noun in (str(run), f"{run}@best", f"{run}@latest"):
        with pytest.warns(RegardWarning, match=rf"step-4/{name}: damaged.*an older one is used"):
            assert load_bundle(noun).model.spec.decoder is not None
    with pytest.raises(CheckpointError, match=rf"step-4/{name}: damaged"):
        load_bundle(f"{run}@step-4")
    flip(run / "checkpoints" / "step-2" / name)
    with pytest.raises(CheckpointError, match=name):
        load_bundle(str(run))


def test_what_to_type_is_told_though_the_newest_is_damaged(run: Path) -> None:
    flip(run / "checkpoints" / "step-4" / "state.json")
    with pytest.warns(RegardWarning, match="an older one is used"):
        assert usage(str(run)).startswith("regard translate")


def test_a_checkpoint_that_goes_while_it_is_read_is_stepped_over(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training goes on and deletes what is old."""

    def late(path: Path) -> dict[str, Tensor]:
        if path.parent.name == "step-4":
            shutil.rmtree(path.parent)
        return map_tensors(path)

    monkeypatch.setattr("regard.train.checkpoint.map_tensors", late)
    load_bundle(f"{run}@latest")


def test_each_file_is_read_once_and_compared_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digested, opened = Counter[str](), Counter[str]()

    def digest(path: Path) -> str:
        digested.update([path.name])
        return digest_file(path)

    def read(path: Path, most: int | None = None) -> bytes:
        opened.update([path.name])
        return _content(path, most)

    monkeypatch.setattr("regard.train.checkpoint.digest_file", digest)
    monkeypatch.setattr("regard.train.checkpoint._content", read)
    load_bundle(str(run))
    assert digested == {"model.safetensors": 1}
    assert not any(name.endswith("safetensors") for name in opened)


def test_weights_are_put_in_place_without_chance(run: Path) -> None:
    """Nothing is initialised first, each weight begins where products expect it, and tied ones are one."""
    before = torch.get_rng_state()
    model = load_model(resolve(str(run)))
    assert torch.equal(torch.get_rng_state(), before)
    assert model.decoder is not None and model.encoder is not None
    assert model.encoder.embedding.table is model.decoder.embedding.table
    assert model.head is not None and model.head.words is model.decoder.embedding.table
    for weight in model.parameters():
        assert weight.data_ptr() % 64 == 0
        assert weight.requires_grad
        assert not weight.is_meta
    written = load_file(run / "checkpoints" / "step-4" / "model.safetensors")
    assert model.state_dict().keys() == written.keys()
    assert all(torch.equal(tensor, written[name]) for name, tensor in model.state_dict().items())


def test_who_changes_a_loaded_model_changes_no_file(run: Path) -> None:
    path = run / "checkpoints" / "step-4" / "model.safetensors"
    before = path.read_bytes()
    model = load_model(resolve(f"{run}@latest"))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(1)
    assert path.read_bytes() == before
    verify(path.parent)


def test_what_is_gone_on_from_needs_no_file_any_more(run: Path) -> None:
    path = run / "checkpoints" / "step-4" / "optimizer.safetensors"
    found = verify(path.parent).tensors("optimizer")
    before = {name: tensor.clone() for name, tensor in found.items()}
    with open(path, "r+b") as file:
        file.write(b"\0" * path.stat().st_size)
    assert all(torch.equal(tensor, before[name]) for name, tensor in found.items())


def test_weights_of_half_precision_are_computed_with_in_single(run: Path, tmp_path: Path) -> None:
    step = resolve(f"{run}@latest")
    halves = {name: tensor.bfloat16() for name, tensor in step.tensors("model").items()}
    written = Store(tmp_path / "half").save(1, {"model": halves}, {"spec": step.json("spec"), "state": {}}, {})
    model = load_model(written)
    assert model.dtype == torch.float32
    assert all(torch.equal(tensor, halves[name].float()) for name, tensor in model.state_dict().items())


def test_the_average_is_read_alone_where_it_says_all(run: Path, tmp_path: Path) -> None:
    step = resolve(f"{run}@latest")
    weights = step.tensors("model")
    means = {name: tensor + 1 for name, tensor in weights.items()}
    data = {"spec": step.json("spec"), "state": {}}
    whole = Store(tmp_path / "a").save(1, {"model": weights, "average": means}, data, {})
    flip(whole.path / "model.safetensors")  # nobody needs it
    assert all(torch.equal(tensor, means[name]) for name, tensor in read_weights(whole).items())
    name, rest = next(iter(means)), dict(list(means.items())[1:])
    part = Store(tmp_path / "b").save(1, {"model": weights, "average": rest}, data, {})
    assert torch.equal(read_weights(part)[name], weights[name])
    flip(part.path / "model.safetensors")
    with pytest.raises(Damage, match="model"):
        read_weights(inspect(part.path))


class Counted(Part):
    """A part with a buffer that no file keeps."""

    numbers: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("numbers", torch.empty(5), persistent=False)

    def reset(self) -> None:
        self.numbers.copy_(torch.arange(5))


def test_a_buffer_that_no_file_keeps_is_computed() -> None:
    spec = preset("gpt2", width=16, depth=1, vocabulary=11)
    first, model = spec.build().eval(), spec.build("meta").eval()
    with blueprint():
        model.counted = Counted()
    place(model, first.state_dict(), "a file")
    assert model.counted.numbers.tolist() == [0, 1, 2, 3, 4]
    assert torch.equal(model(torch.tensor([[1, 2]])), first(torch.tensor([[1, 2]])))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_what_is_not_finite_is_seen_and_what_is_large_is_not(dtype: torch.dtype) -> None:
    large = torch.full((50, 3), torch.finfo(dtype).max, dtype=dtype)
    assert is_finite(large)
    assert is_finite(torch.empty(0, dtype=dtype))
    for bad in (float("nan"), float("inf"), -float("inf")):
        large[7, 1] = bad
        assert not is_finite(large)
    large[8, 2] = float("inf")  # beside the other infinity
    assert not is_finite(large)


@pytest.mark.parametrize("load", [map_tensors, read_tensors])
@pytest.mark.parametrize("shift", [0, 8, 24], ids="{} bytes off".format)
def test_every_tensor_begins_where_torch_would_let_it(
    tmp_path: Path, shift: int, load: Callable[[Path], dict[str, Tensor]]
) -> None:
    """Also those of files whose data begins elsewhere, as that of earlier versions does."""
    tensors = {
        "a": torch.randn(32, 16),
        "b": torch.tensor(7),
        "c": torch.zeros(0, 4),
        "d": torch.tensor([True, False, True]),
        "e": torch.randn(3, 5),
        "f": torch.randn(3).to(torch.float8_e4m3fn),
        "g": torch.randn(2, 2, dtype=torch.float64),
        "h": torch.randn(64, 16),
    }
    header, data = pack_tensors(tensors)
    assert len(header) % ALIGNED == 0
    path, size = tmp_path / "x.safetensors", len(header) - 8 + shift
    path.write_bytes(size.to_bytes(8, "little") + header[8:] + b" " * shift + data)
    found = load(path)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(found[name].double(), tensor.double())
        assert found[name].data_ptr() % ALIGNED == 0 or not tensor.numel()


def test_a_checkpoint_that_is_gone_on_from_is_compared_whole(run: Path) -> None:
    path = run / "checkpoints" / "step-4"
    flip(path / "optimizer.safetensors")
    assert inspect(path).step == 4
    with pytest.raises(Damage, match="optimizer"):
        verify(path)


def test_what_is_no_run_leads_to_those_that_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="runs/nix: not a run") as error:
        resolve("runs/nix")
    assert error.value.hint.startswith("regard runs ")
    with pytest.raises(CheckpointError, match="gpt2: not a run but a preset") as error:
        resolve("gpt2")
    assert "regard import hf:OWNER/gpt2" in error.value.hint and "model: gpt2" in error.value.hint
