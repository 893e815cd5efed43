"""Pictures from bytes: every kind that is promised, whatever a camera or a vandal did to it; and other sizes."""

from __future__ import annotations

import io
import random
import struct
import zlib
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from regard.data.canvas import Tally
from regard.data.log import Unusable
from regard.data.picture import Fit, decode_picture, fit_picture, read_picture
from regard.errors import InputError

Image = pytest.importorskip("PIL.Image")
KINDS = {"png": "PNG", "jpeg": "JPEG", "webp": "WEBP"}


def pixels(height: int, width: int, channels: int, seed: int = 0) -> NDArray[Any]:
    """A smooth picture, which JPEG changes little."""
    chance = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    planes = [120 + 60 * np.sin(y / 5 + phase) + 50 * np.cos(x / 7 + phase) for phase in chance.normal(size=channels)]
    return np.stack(planes, -1).clip(0, 255).astype(np.uint8)


def packed(picture: Any, kind: str, **settings: Any) -> bytes:
    """A file's bytes."""
    flat = picture[:, :, 0] if isinstance(picture, np.ndarray) and picture.shape[-1] == 1 else picture
    image = Image.fromarray(flat) if isinstance(picture, np.ndarray) else picture
    file = io.BytesIO()
    image.save(file, KINDS[kind], **({"quality": 95} if kind == "jpeg" else {}), **settings)
    return file.getvalue()


def make_png(height: int, width: int, depth: int, colour: int, rows: bytes) -> bytes:
    """A PNG, chunk by chunk: for what Pillow doesn't write."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_format_gives_the_pixels(kind: str, channels: int, tmp_path: Path) -> None:
    picture = pixels(20, 30, channels)
    settings = {"lossless": True} if kind == "webp" else {}
    content = packed(picture, kind, **settings)
    found = decode_picture(content)
    assert not found.loss and found.picture.dtype == np.uint8
    if kind == "webp":  # it has no grey of its own
        assert found.picture.shape == (20, 30, 3) and (found.picture[:, :, :channels] == picture).all()
    else:
        assert found.picture.shape == picture.shape
        assert np.abs(found.picture.astype(int) - picture).max() <= (0 if kind == "png" else 12)
    (tmp_path / "a").write_bytes(content)
    assert (read_picture(tmp_path / "a") == found.picture).all() and (read_picture(content) == found.picture).all()


def test_the_camera_s_orientation_is_honoured() -> None:
    picture = pixels(8, 12, 3)
    turns = {1: picture, 2: picture[:, ::-1], 3: picture[::-1, ::-1], 4: picture[::-1]}
    turned = picture.transpose(1, 0, 2)
    turns |= {5: turned, 6: turned[:, ::-1], 7: turned[::-1, ::-1], 8: turned[::-1]}
    for orientation, wanted in turns.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        found = read_picture(packed(picture, "png", exif=exif))
        assert found.shape == wanted.shape and (found == wanted).all(), orientation


def test_palettes_become_colours_and_what_is_transparent_lies_on_white() -> None:
    picture = pixels(8, 8, 3)
    palette = Image.fromarray(picture).quantize(16)
    assert (read_picture(packed(palette, "png")) == np.asarray(palette.convert("RGB"))).all()
    clear = np.dstack([picture, np.full((8, 8), 0, np.uint8)])
    clear[:4, :, 3] = 255
    found = read_picture(packed(Image.fromarray(clear), "png"))
    assert (found[:4] == picture[:4]).all() and (found[4:] == 255).all() and found.shape == (8, 8, 3)
    grey = np.dstack([picture[:, :, 0], clear[:, :, 3]])
    found = read_picture(packed(Image.fromarray(grey), "png"))
    assert found.shape == (8, 8, 1) and (found[:4, :, 0] == picture[:4, :, 0]).all() and (found[4:] == 255).all()
    bits = Image.fromarray(picture[:, :, 0]).convert("1")
    assert set(np.unique(read_picture(packed(bits, "png")))) <= {0, 255}
    holes = Image.fromarray(picture).quantize(16)
    assert (read_picture(packed(holes, "png", transparency=holes.getpixel((0, 0))))[0, 0] == 255).all()


def test_what_loses_something_is_told() -> None:
    deep = (np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000).astype(np.uint16)
    found = decode_picture(packed(Image.fromarray(deep), "png"))
    assert found.loss == "16 bits a channel: 8 are kept" and (found.picture[:, :, 0] == deep >> 8).all()
    rows = b"".join(b"\0" + struct.pack(">9H", *range(n * 7000, n * 7000 + 9)) for n in range(2))
    colours = decode_picture(make_png(2, 3, 16, 2, rows))  # which Pillow would halve without a word
    assert colours.loss.startswith("16 bits") and colours.picture[1, 0].tolist() == [27, 27, 27]
    ink = Image.fromarray(pixels(8, 8, 3)).convert("CMYK")
    found = decode_picture(packed(ink, "jpeg"))
    assert found.loss.startswith("CMYK: ") and np.abs(found.picture.astype(int) - pixels(8, 8, 3)).max() < 20
    frames = [Image.fromarray(pixels(8, 8, 3, seed)) for seed in range(3)]
    file = io.BytesIO()
    frames[0].save(file, "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    found = decode_picture(file.getvalue())
    assert found.loss == "several frames: 3, and the first one is taken" and (found.picture == pixels(8, 8, 3)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_file_is_refused_wherever_it_is_cut(kind: str) -> None:
    content = packed(np.random.default_rng(0).integers(0, 255, (40, 40, 3), np.uint8), kind)
    for share in (0.02, 0.1, 0.3, 0.6, 0.9):
        with pytest.raises(Unusable, match=r"damaged picture|not a picture"):
            decode_picture(content[: int(len(content) * share)])


@pytest.mark.parametrize("content", [b"", b"GIF89a" + bytes(50), b"%!PS-Adobe-3.0 EPSF-3.0\n(x) run", b"RIFFxxxxWAVE"])
def test_what_is_no_picture_is_refused_by_its_first_bytes(content: bytes) -> None:
    with pytest.raises(Unusable, match="not a picture"):
        decode_picture(content)


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = make_png(30_000, 30_000, 8, 2, bytes(10))
    with pytest.raises(Unusable, match="too many pixels: 30000 × 30000, and 67,108,864 are the most"):
        decode_picture(bomb)
    with pytest.raises(Unusable, match="too many pixels: 20 × 30, and 599 are the most"):
        decode_picture(packed(pixels(20, 30, 3), "jpeg"), 599)
    huge = io.BytesIO()
    np.lib.format.write_array_header_1_0(huge, {"descr": "<f4", "fortran_order": False, "shape": (2**20, 2**20, 9)})
    with pytest.raises(Unusable, match="damaged array"):
        decode_picture(huge.getvalue())


@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_is_more_than_unusable(kind: str) -> None:
    content, chance = packed(pixels(24, 24, 3), kind), random.Random(1)
    for _ in range(150):
        broken = bytearray(content)
        for _ in range(chance.randint(1, 8)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        try:
            found = decode_picture(bytes(broken), 10_000)
        except Unusable:
            continue
        assert found.picture.ndim == 3 and found.picture.dtype == np.uint8


def test_a_numpy_file_is_a_map_of_features(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(7, 5, 12)).astype(np.float32)
    np.save(tmp_path / "a.npy", features)
    assert (read_picture(tmp_path / "a.npy") == features).all()
    np.save(tmp_path / "b.npy", features.astype(np.float64))
    assert read_picture(tmp_path / "b.npy").dtype == np.float32
    np.save(tmp_path / "c.npy", np.full((2, 2, 1), np.nan, np.float32))
    np.save(tmp_path / "d.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "e.npy", np.zeros((2, 2, 2), np.int64))
    for name, reason in (("c", "finite"), ("d", "damaged array: .*allow_pickle"), ("e", "int64")):
        with pytest.raises(Unusable, match=reason):
            read_picture(tmp_path / f"{name}.npy")
    with pytest.raises(InputError, match="No such file"):
        read_picture(tmp_path / "f.npy")
    with pytest.raises(Unusable, match="another size: 7 × 5, and 5 × 5 is wanted; maps of features aren't resized"):
        fit_picture(features, 5, "resize")


@pytest.mark.parametrize("shape", [(60, 40, 3), (40, 60, 1), (17, 90, 3), (20, 20, 3)])
def test_every_fit_gives_the_size_and_keeps_what_it_says(shape: tuple[int, int, int]) -> None:
    height, width, channels = shape
    picture = pixels(*shape)
    made = {fit: fit_picture(picture, (20, 20), fit) for fit in get_args(Fit)}
    assert all(found.shape == (20, 20, channels) and found.dtype == np.uint8 for found in made.values())
    larger = 20 / min(height, width)
    tall, wide = height * larger, width * larger
    if tall == int(tall) and wide == int(wide):  # scaled first and cut then
        whole = fit_picture(picture, (int(tall), int(wide)), "resize").astype(int)
        centre = whole[(int(tall) - 20) // 2 :][:20, (int(wide) - 20) // 2 :][:, :20]
        assert np.abs(made["crop"] - centre).max() <= 1
    scale = 20 / max(height, width)
    high, broad = round(height * scale), round(width * scale)
    inner = made["pad"][(20 - high) // 2 :][:high, (20 - broad) // 2 :][:, :broad]
    assert (inner == fit_picture(picture, (high, broad), "resize")).all()
    assert int(made["pad"].sum()) == int(inner.sum())  # the rest is black
    assert fit_picture(picture, (height, width), None) is picture and fit_picture(picture, None, None) is picture
    if shape[:2] != (20, 20):
        with pytest.raises(Unusable, match=f"another size: {height} × {width}, and 20 × 20 is wanted; task.fit=resize"):
            fit_picture(picture, 20, None)


@pytest.mark.parametrize("fit", ["resize", "crop", "pad"])
def test_a_thin_picture_takes_no_more_memory_than_others(fit: Fit) -> None:
    assert fit_picture(pixels(1, 20_000, 1), (64, 64), fit).shape == (64, 64, 1)


def test_smaller_pictures_are_means_and_not_every_other_pixel() -> None:
    board = np.indices((32, 32)).sum(0)[:, :, None].astype(np.uint8) % 2 * np.uint8(255)
    small = fit_picture(board, 8, "resize")
    assert small.min() > 110 and small.max() < 145


def test_channels_are_what_is_wanted() -> None:
    picture = pixels(6, 5, 3)
    grey = np.asarray(Image.fromarray(picture).convert("L"))
    assert (fit_picture(picture, None, None, 1)[:, :, 0] == grey).all()
    three = fit_picture(grey[:, :, None], None, None, 3)
    assert three.shape == (6, 5, 3) and (three == grey[:, :, None]).all()
    with pytest.raises(Unusable, match="other channels: 12, and 3 are wanted"):
        fit_picture(np.zeros((2, 2, 12), np.float32), None, None, 3)


def test_the_canvas_has_the_mean_and_spread_of_all_pixels() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (9, 6, 5, 3), np.uint8)
    tally = Tally()
    for picture in pictures:
        tally.see(picture)
    canvas = tally.canvas()
    assert canvas is not None and canvas.shape == (6, 5, 3)
    flat = pictures.reshape(-1, 3) / 255
    assert np.allclose(canvas.mean, flat.mean(0)) and np.allclose(canvas.spread, flat.std(0))
    normal = canvas.normalise(pictures)
    assert normal.shape == (9, 3, 6, 5) and abs(float(normal.mean())) < 1e-5 and abs(float(normal.std()) - 1) < 1e-2
