from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from primbench.backends import open_backend
from primbench.devices import nth_gpu
from primbench.gpu.nvidia import timing as on_gpu
from primbench.measurement.outputs import part_words
from primbench.timing.digest import digest_of, of_host, unlike_parts

MODULUS = 1 << 64


def key(number: int) -> int:
    """SplitMix64 as its authors write it."""
    z = (number + 1) * 0x9E3779B97F4A7C15 % MODULUS
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % MODULUS
    z = (z ^ z >> 27) * 0x94D049BB133111EB % MODULUS
    return z ^ z >> 31 | 1


def word_by_word(content: bytes) -> list[str]:
    """The sums of a digest, as its description has them."""
    length = part_words(len(content))
    words = [int.from_bytes(content[at : at + 4], "little") for at in range(0, len(content), 4)]
    sums = [0] * -(-len(words) // length)
    for number, word in enumerate(words):
        part, at = divmod(number, length)
        sums[part] += word * key(at % 4096) * key(4096 + at // 4096)
    return [f"{each % MODULUS:016x}" for each in sums]


@pytest.mark.parametrize("size", [0, 1, 3, 4, 63, 64, 65, 1003, 16 * 4 * 4096, 16 * 4 * 4096 + 5, 600_001])
def test_it_is_the_sum_that_is_described(size: int) -> None:
    content = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    kind, *sums = of_host(content).split()
    assert f"uint8[{size}]" == kind
    assert word_by_word(content.tobytes()) == sums


def test_large_arrays_are_shared_out_to_threads_and_give_the_same() -> None:
    content = np.arange(5_000_000, dtype=np.uint32)
    assert of_host(content) == of_host(content.copy())
    rows = np.einsum(
        "rc,c->r", content[:4_997_120].reshape(-1, 4096), np.array([key(each) for each in range(4096)], np.uint64)
    )
    length = part_words(content.nbytes) // 4096
    first = sum(int(row) * key(4096 + number) for number, row in enumerate(rows[:length])) % MODULUS
    assert f"{first:016x}" == of_host(content).split()[1]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8", "int32", ml_dtypes.bfloat16])
def test_each_bit_counts_and_so_does_the_order(dtype: Any) -> None:
    array = np.random.default_rng(0).integers(-100, 100, 81).astype(dtype)
    bits = array.view(np.uint8)
    digest = of_host(array)
    for place in range(0, bits.size, 5):
        for bit in range(8):
            bits[place] ^= 1 << bit
            assert unlike_parts(digest, of_host(array)) == (1, len(digest.split()) - 1)
            bits[place] ^= 1 << bit
    assert digest == of_host(array)
    array[[3, 50]] = array[[50, 3]]
    assert digest != of_host(array)


def test_two_signs_that_change_do_not_hide_each_other() -> None:
    array = np.random.default_rng(0).random(4096, np.float32)
    digest = of_host(array)
    for place in range(1, 4096, 9):
        array[[0, place]] *= -1
        assert digest != of_host(array)
        array[[0, place]] *= -1


def test_it_is_of_the_elements_as_c_has_them_wherever_they_lie() -> None:
    array = np.random.default_rng(0).random((30, 40), np.float32)
    assert of_host(array) == of_host(np.asfortranarray(array)) == of_host(np.repeat(array, 2, axis=1)[:, ::2])
    apart = np.frombuffer(b"-" + array.tobytes(), np.uint8)[1:].view(np.float32).reshape(30, 40)
    assert of_host(array) == of_host(apart)
    assert of_host(array) != of_host(array.T)
    assert None is unlike_parts(of_host(array), of_host(array.reshape(40, 30)))


@pytest.mark.wheel
def test_a_backends_array_and_what_brings_its_output_itself_have_that_of_the_host() -> None:
    torch = pytest.importorskip("torch")
    backend = open_backend("torch", "cpu")
    array = np.random.default_rng(0).random((3, 5), np.float32).astype(ml_dtypes.bfloat16)
    assert of_host(array) == digest_of(backend, backend.put(array))
    assert of_host(array.astype("float32")) == digest_of(backend, torch.from_numpy(array.astype("float32")))

    class Brought:
        def poison(self) -> None: ...

        def get(self) -> Any:
            return array

    assert of_host(array) == digest_of(backend, Brought())


def test_a_gpus_array_is_digested_there_where_it_lies_as_c_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in: the sums of the host for those of a kernel."""
    array = np.random.default_rng(0).random((4, 8), np.float32)

    class Backend:
        device, stream_handle = nth_gpu(0), 7
        brought = 0

        def extent(self, found: Any) -> tuple[int, int] | None:
            return (found.ctypes.data, found.nbytes) if found.flags.c_contiguous else None

        def get(self, found: Any) -> Any:
            self.brought += 1
            return found.array

    class OnGpu:
        """No array of NumPy's."""

        def __init__(self, held: Any) -> None:
            self.array = held
            self.dtype, self.shape, self.ctypes = held.dtype, held.shape, held.ctypes
            self.flags, self.nbytes = held.flags, held.nbytes

    def sums(address: int, size_bytes: int, stream: int) -> list[int]:
        assert (array.ctypes.data, array.nbytes, 7) == (address, size_bytes, stream)
        return [int(each, 16) for each in of_host(array).split()[1:]]

    monkeypatch.setattr(on_gpu, "sums", sums)
    backend: Any = Backend()
    assert of_host(array) == digest_of(backend, OnGpu(array))
    assert 0 == backend.brought
    turned = OnGpu(array.T)
    assert of_host(array.T) == digest_of(backend, turned)
    assert 1 == backend.brought


def test_memory_that_does_not_begin_with_a_word_is_left_to_the_host() -> None:
    assert None is on_gpu.sums(4097, 16, 0)
