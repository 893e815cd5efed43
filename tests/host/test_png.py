"""PNG files against Pillow's reader."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from regard.host.png import encode_png


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_a_picture_is_read_as_it_was_written(channels: int) -> None:
    picture = np.random.default_rng(channels).integers(0, 256, (5, 7, channels), dtype=np.uint8)
    found = np.asarray(Image.open(io.BytesIO(encode_png(picture)))).reshape(picture.shape)
    assert (found == picture).all()


def test_what_isnt_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="float32 in 3"):
        encode_png(np.zeros((2, 2, 3), np.float32))
    with pytest.raises(ValueError, match="uint8 in 5"):
        encode_png(np.zeros((2, 2, 5), np.uint8))
