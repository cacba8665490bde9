"""Every CUDA source compiles for every architecture that primbench names, on a machine without a GPU or driver.

The first line of a source lists the option sets that it is compiled with: ``// variants: -DT=float | -DT=__half``.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import pytest

from primbench.cuda.kernels import text_of
from primbench.kernels.conv import Conv
from primbench.kernels.conv import _implicit_gemm as conv_kernel

pytestmark = pytest.mark.wheel

SOURCES = sorted((Path(__file__).parents[2] / "kernels").glob("*/*.cu"))
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")


def wheels_folder() -> Path | None:
    """Where NVIDIA's wheels for CUDA 13 keep their lib/ and include/."""
    nvidia = importlib.util.find_spec("nvidia")
    found = [Path(root) / "cu13" for root in (nvidia and nvidia.submodule_search_locations) or ()]
    needed = ("lib/libnvrtc.so.13", "include/cuda_fp16.h")
    return next((folder for folder in found if all((folder / each).exists() for each in needed)), None)


class Compiler:
    """NVRTC as nvrtc.h of CUDA 13 declares it: every function returns 0, or what went wrong."""

    def __init__(self, folder: Path) -> None:
        # NVRTC opens its builtins by name: they are found where they are loaded already.
        self._builtins = [ctypes.CDLL(str(path)) for path in folder.glob("lib/libnvrtc-builtins.so.*")]
        self._library = ctypes.CDLL(str(folder / "lib/libnvrtc.so.13"))
        self._include = f"-I{folder / 'include'}"

    def cubin(self, source: str, architecture: str, options: Sequence[str]) -> tuple[bytes, str]:
        """The machine code, empty where there is none, and what the compiler says of errors and warnings."""
        program = c_void_p()
        self._call("nvrtcCreateProgram", byref(program), source.encode(), b"source.cu", 0, None, None)
        given = [option.encode() for option in (f"--gpu-architecture={architecture}", self._include, *options)]
        failed = self._library.nvrtcCompileProgram(program, len(given), (c_char_p * len(given))(*given))
        said = self._text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog", program).rstrip(b"\0").decode()
        code = b"" if failed else self._text("nvrtcGetCUBINSize", "nvrtcGetCUBIN", program)
        self._call("nvrtcDestroyProgram", byref(program))
        return code, said

    def _text(self, size_function: str, function: str, program: c_void_p) -> bytes:
        size_bytes = c_size_t()
        self._call(size_function, program, byref(size_bytes))
        buffer = ctypes.create_string_buffer(size_bytes.value)
        self._call(function, program, buffer)
        return buffer.raw

    def _call(self, function: str, *arguments: Any) -> None:
        assert 0 == getattr(self._library, function)(*arguments), function


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    folder = wheels_folder()
    if folder is None:
        pytest.skip("no NVRTC with its headers in NVIDIA's wheels: pip install -e '.[dev]'")
    return Compiler(folder)


def variants(source: Path) -> list[list[str]]:
    first, _, listed = source.read_text().split("\n", 1)[0].partition("variants:")
    assert "//" == first.strip(), f"{source.name}: the first line lists no variants"
    return [options.split() for options in listed.split("|")]


# Every variant for the oldest, which knows least, and the first of each source for those after it, too.
CASES = [(source, options, ARCHITECTURES[0]) for source in SOURCES for options in variants(source)]
CASES += [(source, variants(source)[0], later) for source in SOURCES for later in ARCHITECTURES[1:]]


@pytest.mark.parametrize(
    ("source", "options", "architecture"), CASES, ids=[f"{path.name} {' '.join(o)} {to}" for path, o, to in CASES]
)
def test_source_compiles_without_a_warning(
    source: Path, options: list[str], architecture: str, compiler: Compiler
) -> None:
    code, said = compiler.cubin(text_of(source.parent.name, source.name), architecture, ["-std=c++17", *options])
    assert "" == said
    assert code.startswith(b"\x7fELF")


DIRECTIONS = ("forward", "bwd_data", "bwd_weights")


@pytest.mark.parametrize(
    ("dtype", "layout", "slices"),
    [("float32", "nchw", 1), ("float16", "nhwc", 7), ("bfloat16", "nchw", 7), ("int8", "nhwc", 1)],
)
def test_convolution_compiles_with_the_options_of_a_problem(
    dtype: str, layout: str, slices: int, compiler: Compiler
) -> None:
    """For a size that none of the constants divides."""
    problem = Conv(3, 10, 13, 7, 6, 5, 2, 1, 2, 2, 3, 1, 2, 2, dtype=dtype, layout=layout)
    code, said = compiler.cubin(conv_kernel.source(), "sm_90", conv_kernel.options(problem, slices))
    assert "" == said
    assert [True] * 4 == [f".text.{name}".encode() in code for name in (*DIRECTIONS, "add_slices")]


def test_an_error_in_a_source_is_seen(compiler: Compiler) -> None:
    code, said = compiler.cubin("__global__ void k() { missing(); }", "sm_90", [])
    assert b"" == code
    assert 'identifier "missing" is undefined' in said
