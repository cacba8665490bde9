"""JPEG files: as large as those that they stand for, and read from folders of classes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from primbench.datasets.dataset import Bad, Dataset, Good, find, format_of, write
from primbench.datasets.format import Format
from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.problem.examples import IMAGENET, TINY_IMAGENET, Examples

from .test_formats import Nothing, good

pytestmark = pytest.mark.wheel
SIDE = 32


def form(kind: Examples) -> Format:
    pytest.importorskip("PIL", reason="Pillow is not installed: pip install 'primbench[data]'")
    return format_of(Nothing(kind, inputs))


def inputs(rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    return rng.random((count, 3, SIDE, SIDE), np.float32), rng.integers(0, 10, count)


@pytest.mark.parametrize(("kind", "size_bytes"), [(TINY_IMAGENET, 2_070), (IMAGENET, 114_660)])
def test_a_file_has_as_many_bytes_as_a_photograph(kind: Any, size_bytes: int) -> None:
    sizes = [len(each.content) for each in form(kind).make(40)]
    assert size_bytes == pytest.approx(np.mean(sizes), rel=0.1)
    assert max(sizes) > 1.3 * min(sizes)


@pytest.mark.parametrize("as_shards", [False, True])
def test_images_become_arrays_and_folders_classes(as_shards: bool, tmp_path: Path) -> None:
    chosen = form(TINY_IMAGENET)
    write(chosen, str(tmp_path), 25, as_shards=as_shards)
    dataset = Dataset(chosen, "", find(chosen, str(tmp_path), as_shards=as_shards), is_kept=True)
    assert 25 == len(dataset)
    for number in range(25):
        image, label = good(dataset[number]).arrays
        assert ((3, SIDE, SIDE), "float32") == (image.shape, image.dtype.name)
        assert -1 <= image.min() < -0.2 < 0.2 < image.max() <= 1
        assert dataset.places[number].name.startswith(f"n{int(label):04}/")
    assert np.array_equal(good(dataset[3]).arrays[0], good(dataset[3]).arrays[0])


def test_one_that_is_none_and_one_that_was_cut_off_are_named_and_others_are_read(tmp_path: Path) -> None:
    chosen = form(TINY_IMAGENET)
    write(chosen, str(tmp_path), 5, as_shards=False)
    none, cut, *_ = sorted(tmp_path.glob("*/*"))
    none.write_bytes(b"no image")
    cut.write_bytes(cut.read_bytes()[:700])
    (tmp_path / "n0002/g\none.jpg").symlink_to("nowhere")
    dataset = Dataset(chosen, "", find(chosen, str(tmp_path), as_shards=False), is_kept=True)
    found = [dataset[number] for number in range(6)]
    bad = {each.name: each.reason for each in found if isinstance(each, Bad)}
    assert {"n0000/0000000.JPEG", "n0001/0000001.JPEG", r"'n0002/g\none.jpg'"} == set(bad)
    assert "it is no image" == bad["n0000/0000000.JPEG"]
    assert "truncated" in bad["n0001/0000001.JPEG"]
    assert "No such file or directory" == bad[r"'n0002/g\none.jpg'"]
    assert 3 == sum(isinstance(each, Good) for each in found)


def test_classes_that_cannot_be_are_refused(tmp_path: Path) -> None:
    chosen = form(TINY_IMAGENET)
    (tmp_path / "0.jpg").touch()
    with pytest.raises(PrimbenchError, match="files lie in no folder, and their classes are not known"):
        find(chosen, str(tmp_path), as_shards=False)
    (tmp_path / "0.jpg").unlink()
    for number in range(11):
        (tmp_path / str(number)).mkdir()
        (tmp_path / f"{number}/0.jpg").touch()
    with pytest.raises(PrimbenchError, match="11 folders of classes, 10 are the model's"):
        find(chosen, str(tmp_path), as_shards=False)


def test_what_is_missing_is_named_with_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UnsupportedCase, match=r"Pillow: pip install 'primbench\[data\]'"):
        format_of(Nothing(TINY_IMAGENET, inputs))
