"""For which GPUs a library has code, by files that nvcc wrote, where there is one."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from primbench.environment.gpu_code import architectures, gpu_code, how_it_runs, lacking

KERNEL = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }\n'
ALL = {"compute_90", "sm_75", "sm_90", "sm_90a"}
NVCC = shutil.which("nvcc")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with libraries for an old GPU alone, for PTX alone, and for several."""
    if NVCC is None:
        pytest.skip("nvcc is not installed: pip install nvidia-cuda-nvcc")
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "kernel.cu").write_text(KERNEL)
    targets = {
        "old": ["arch=compute_75,code=sm_75"],
        "ptx": ["arch=compute_80,code=compute_80"],
        "many": [
            "arch=compute_75,code=sm_75", "arch=compute_90a,code=sm_90a", "arch=compute_90,code=[sm_90,compute_90]",
        ],
    }  # fmt: skip
    for name, each in targets.items():
        options = [word for target in each for word in ("-gencode", target)]
        command = [NVCC, "-shared", "-Xcompiler", "-fPIC", "-cudart", "none", *options, "-o", f"{name}.so", "kernel.cu"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"nvcc does not compile for them: {done.stderr.strip()[-200:]}")
    return folder


def test_what_nvcc_compiled_for_is_read(compiled: Path) -> None:
    assert ["sm_75"] == architectures(compiled / "old.so")
    assert ["compute_80"] == architectures(compiled / "ptx.so")
    assert sorted(ALL) == architectures(compiled / "many.so")


def test_libraries_that_are_mapped_are_told(compiled: Path) -> None:
    with (compiled / "ptx.so").open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        assert {"ptx.so": ["compute_80"]} == gpu_code(Path("/"))


def test_a_library_without_kernels_has_none() -> None:
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line)
    assert [] == architectures(Path(libc))


def test_a_file_that_is_cut_or_damaged_is_refused_or_has_less(compiled: Path, tmp_path: Path) -> None:
    whole = (compiled / "many.so").read_bytes()
    for size in range(0, len(whole), 997):
        (tmp_path / "cut.so").write_bytes(whole[:size])
        try:
            found = architectures(tmp_path / "cut.so")
        except ValueError:
            continue
        assert set(found) <= ALL
    at = whole.index(struct.pack("<I", 0xBA55ED50))
    (tmp_path / "endless.so").write_bytes(whole[: at + 16] + bytes(64) + whole[at + 80 :])
    assert set(architectures(tmp_path / "endless.so")) < ALL


@pytest.mark.parametrize(
    ("code", "capability", "how"),
    [
        (["sm_75"], "7.5", "as it is"),
        (["sm_80"], "8.6", "as it is"),
        (["sm_86"], "8.0", "not at all"),
        (["sm_75", "sm_80"], "9.0", "not at all"),
        (["sm_80", "compute_80"], "9.0", "compiled at first use"),
        (["compute_90"], "8.9", "not at all"),
        (["sm_90a"], "9.0", "as it is"),
        (["sm_90a", "compute_90a"], "10.0", "not at all"),
        (["sm_100f"], "10.3", "as it is"),
        (["sm_120"], "12.0", "as it is"),
    ],
)  # fmt: skip
def test_how_code_runs_on_a_gpu(code: list[str], capability: str, how: str) -> None:
    assert how == how_it_runs(code, capability)
    assert ({} if how == "as it is" else {"it": how}) == lacking({"it": code}, capability)
