"""Examples on disk: they come back as they were, in files and in shards, and what is broken is named."""

from __future__ import annotations

import io
import os
import re
import struct
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from primbench.datasets.dataset import Bad, Dataset, Good, find, format_of, write
from primbench.datasets.format import Format
from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.problem.examples import Arrays, Csv, Examples, Idx, Tokens
from primbench.problem.network import Network
from primbench.system.page_cache import COLD, drop, held_share, write_back

WORDS, LENGTH = 50, 6


class Nothing(Network):
    """A network that is only given examples."""

    batch_size = 2
    classes = 10

    def __init__(self, on_disk: Examples | None, inputs: Callable[[Any, int], tuple[Any, ...]]) -> None:
        self.name, self.on_disk, self._inputs = "nothing", on_disk, inputs  # type: ignore[misc]

    def inputs(self, rng: np.random.Generator, batch_size: int) -> tuple[Any, ...]:
        return self._inputs(rng, batch_size)

    def module(self) -> Any: ...

    def predict(self, module: Any, *inputs: Any) -> Any: ...

    def loss(self, module: Any, *inputs: Any) -> Any: ...

    def optimiser(self, parameters: Iterable[Any]) -> Any: ...

    def flop(self, batch_size: int) -> int:
        return 1


def texts(rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    words = rng.integers(0, WORDS, (count, LENGTH + 1))
    return words[:, :-1], words[:, 1:]


def reviews(rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    return rng.integers(0, WORDS, (LENGTH, count)), rng.integers(0, 2, count).astype(np.float32)


def sounds(rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    return rng.standard_normal((count, 4, 3), np.float32), rng.integers(0, WORDS, (count, 5))


def digits(rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    return rng.standard_normal((count, 1, 4, 5), np.float32), rng.integers(0, 10, count)


def unlabelled(rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    return (rng.standard_normal((count, 20), np.float32),)


FORMATS: dict[str, tuple[Examples, Callable[[Any, int], tuple[Any, ...]]]] = {
    "tokens": (Tokens(WORDS), texts),
    "many tokens": (Tokens(2**17), texts),
    "csv": (Csv(WORDS, axes=(1, 0)), reviews),
    "arrays": (Arrays(), sounds),
    "idx": (Idx(mean=0.5, sd=0.25), digits),
    "idx without labels": (Idx(), unlabelled),
}


def written(name: str, folder: Path, count: int = 7, *, as_shards: bool = False) -> tuple[Format, Dataset]:
    form = format_of(Nothing(*FORMATS[name]))
    write(form, str(folder), count, as_shards=as_shards)
    return form, Dataset(form, str(folder), find(form, str(folder), as_shards=as_shards), is_kept=True)


def good(found: Good | Bad) -> Good:
    assert isinstance(found, Good), found
    return found


@pytest.mark.parametrize("as_shards", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_examples_come_back_as_the_network_takes_them(name: str, as_shards: bool, tmp_path: Path) -> None:
    form, dataset = written(name, tmp_path, as_shards=as_shards)
    assert 7 == len(dataset)
    for number, expected in enumerate(form.drawn(7)):
        found = good(dataset[number])
        assert [(each.shape, each.dtype) for each in expected] == [(each.shape, each.dtype) for each in found.arrays]
        if not isinstance(FORMATS[name][0], Idx):  # whose bytes are drawn anew
            assert all(np.allclose(*pair) for pair in zip(expected, found.arrays, strict=True))
        assert found.read_bytes == sum(extent.size_bytes for extent in dataset.places[number].extents)


def test_all_files_are_alike_however_often_they_are_made(tmp_path: Path) -> None:
    contents = []
    for folder in (tmp_path / "one", tmp_path / "other"):
        folder.mkdir()
        written("idx", folder)
        contents.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert contents[0] == contents[1]


def test_idx_is_read_as_mnist_has_it(tmp_path: Path) -> None:
    pixels = np.arange(2 * 20, dtype=np.uint8)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, 2, 4, 5) + pixels.tobytes())
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, 2) + bytes([3, 17]))
    form = format_of(Nothing(*FORMATS["idx"]))
    dataset = Dataset(form, "", find(form, str(tmp_path), as_shards=False), is_kept=True)
    image, label = good(dataset[0]).arrays
    assert np.allclose((pixels[:20].reshape(1, 4, 5) / 255 - 0.5) / 0.25, image)
    assert 3 == label
    assert Bad("image 1", "label 17 where there are 10") == dataset[1]


def scalar() -> bytes:
    written = io.BytesIO()
    np.savez(written, np.float64(1))
    return written.getvalue()


@pytest.mark.parametrize(
    ("name", "damaged", "reason"),
    [
        ("tokens", lambda content: b"\xff\xff" + content[2:], "token 65535 where there are 50"),
        ("csv", lambda content: b"x" + content[1:], "'x[0-9]+' is no number$"),
        ("csv", lambda content: b"\n" + content, "0 numbers, not 7"),
        ("csv", lambda content: b"\xff" * 99 + b",1" * 6 + b"\n" + content, r"'(.xff){40}' is no number$"),
        ("csv", lambda content: content.replace(b",", b"", 1), "6 numbers, not 7"),
        ("csv", lambda content: b"-" + content, "word -"),
        ("csv", lambda content: b"nan" + content[content.index(b",") :], "word nan where there are 50"),
        ("csv", lambda content: b"1.5" + content[content.index(b",") :], "word 1.5 where there are 50"),
        ("csv", lambda content: content.replace(b"\n", b".5\n", 1), r"label \d.5 where there are 10"),
        ("arrays", lambda content: scalar(), r"arrays of shapes \[\(\)\], not \[\(4, 3\), \(5,\)\]$"),
        ("arrays", lambda content: content[:100], "File is not a zip file"),
        ("arrays", lambda content: b"", "No data left in file"),
    ],
)
def test_what_cannot_be_decoded_is_named(
    name: str, damaged: Callable[[bytes], bytes], reason: str, tmp_path: Path
) -> None:
    written(name, tmp_path)
    first = min(tmp_path.iterdir())
    first.write_bytes(damaged(first.read_bytes()))
    form = format_of(Nothing(*FORMATS[name]))
    dataset = Dataset(form, "", find(form, str(tmp_path), as_shards=False), is_kept=True)
    bad = dataset[0]
    assert isinstance(bad, Bad)
    assert re.match(reason, bad.reason)
    assert bad.name.startswith(first.name)
    good(dataset[1])


def test_a_file_that_has_gone_or_become_shorter_is_bad(tmp_path: Path) -> None:
    _, dataset = written("arrays", tmp_path)
    (tmp_path / dataset.places[0].name).unlink()
    (tmp_path / dataset.places[1].name).write_bytes(b"PK")
    gone, short = dataset[0], dataset[1]
    assert isinstance(gone, Bad)
    assert isinstance(short, Bad)
    assert "No such file or directory" == gone.reason
    assert short.reason.startswith("2 bytes, not ")
    good(dataset[2])


def test_links_that_lead_back_and_what_is_no_file_cost_themselves_alone(tmp_path: Path) -> None:
    form, dataset = written("arrays", tmp_path)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "a" / "itself.npz").symlink_to("itself.npz")
    os.mkfifo(tmp_path / "a" / "pipe.npz")
    there = find(form, str(tmp_path), as_shards=False)
    assert [*(place.name for place in dataset.places), "a/itself.npz", "a/pipe.npz"] == sorted(
        (place.name for place in there), key=lambda name: (name.startswith("a/"), name)
    )
    with_bad = Dataset(form, str(tmp_path), there, is_kept=True)
    bad = [found for found in map(with_bad.__getitem__, range(len(there))) if isinstance(found, Bad)]
    assert [("a/itself.npz", "Too many levels of symbolic links"), ("a/pipe.npz", "Illegal seek")] == bad


def empty(folder: Path) -> Path:
    return folder


def missing(folder: Path) -> Path:
    return folder / "nowhere"


def a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file"


def labels_of_others(folder: Path) -> Path:
    (folder / "train-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, 2, 4, 5) + bytes(40))
    (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, 3) + bytes(3))
    return folder


def other_images(folder: Path) -> Path:
    (folder / "train-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, 2, 5, 5) + bytes(50))
    return folder


def no_idx(content: bytes) -> Callable[[Path], Path]:
    def made(folder: Path) -> Path:
        (folder / "train-images-idx3-ubyte").write_bytes(content)
        return folder

    return made


def no_tar(folder: Path) -> Path:
    (folder / "0.tar").write_bytes(b"x" * 1000)
    return folder


@pytest.mark.parametrize(
    ("made", "as_shards", "words"),
    [
        (empty, False, "nothing that model nothing reads: train-images-idxN-ubyte and "),
        (empty, True, "nothing that model nothing reads: tar files of such examples are needed"),
        (missing, False, "No such file or directory: train-images-idxN"),
        (missing, True, "No such file or directory: tar files"),
        (a_file, False, "Not a directory"),
        (labels_of_others, False, "2 images, 3 labels: train-images-idxN-ubyte and train-labels"),
        (other_images, False, "has 25 bytes for each of 2 images, the model takes 20"),
        *(
            (no_idx(content), False, "train-images-idx3-ubyte does not begin as IDX files of bytes do")
            for content in (b"\0\0\x08", b"\0\0\x08\0", b"\0\0\x08\3\0\0\0\1")
        ),
        (no_idx(b"\x1f\x8b\x08\0"), False, "does not begin as IDX files of bytes do: unpack it with gunzip"),
        (no_idx(struct.pack(">4I", 0x803, 2, 4, 5) + bytes(39)), False, "is cut off: 39 of the 40 bytes that its head"),
        (no_tar, True, "0.tar: "),
    ],
)
def test_a_folder_without_examples_is_one_line(
    made: Callable[[Path], Path], as_shards: bool, words: str, tmp_path: Path
) -> None:
    folder = made(tmp_path)
    with pytest.raises(PrimbenchError) as refused:
        find(format_of(Nothing(*FORMATS["idx"])), str(folder), as_shards=as_shards)
    assert str(refused.value).startswith(f"data in {folder}: ")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_network_that_reads_nothing_is_refused() -> None:
    with pytest.raises(UnsupportedCase, match="model nothing has nothing on disk: data=device and data=host make"):
        format_of(Nothing(None, texts))


def test_shards_are_tar_files_that_others_read(tmp_path: Path) -> None:
    _, dataset = written("arrays", tmp_path, 70, as_shards=True)
    names = []
    for path in sorted(tmp_path.iterdir()):
        with tarfile.open(path) as shard:
            names.append(shard.getnames())
    assert [64, 6] == [len(each) for each in names]
    assert [place.name for place in dataset.places] == [name for each in names for name in each]


def test_what_was_read_is_dropped_where_it_is_to_be_cold(tmp_path: Path) -> None:
    form, warm = written("tokens", tmp_path, 3_000)  # of 14 bytes, which lie across pages
    write_back(str(tmp_path))
    drop(warm.paths())
    if held_share(warm.paths()) > COLD:
        pytest.skip(f"{tmp_path} is on a file system in memory, of another architecture")
    cold = Dataset(form, "", warm.places, is_kept=False)
    for number in range(len(cold)):
        good(cold[number])
    assert held_share(cold.paths()) < 0.1, "but for what the kernel reads ahead"
    warm.read()
    assert 1.0 == held_share(warm.paths())
