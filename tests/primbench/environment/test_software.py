from __future__ import annotations

import gc
import hashlib
import json
import os
import platform
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from primbench.environment import fingerprint
from primbench.environment.fingerprint import Environment
from primbench.environment.libraries import is_c_library
from primbench.environment.reading import group_of
from primbench.environment.software import Software
from primbench.system import elf
from primbench.system.meaning import facts_of

pytestmark = pytest.mark.wheel

Look = Callable[..., Environment]
Place = Callable[..., Path]
EMPTY = hashlib.sha256(b"").hexdigest()


def test_libraries_are_the_mapped_files_each_copy_once(look: Look) -> None:
    libraries = look().software.libraries
    assert libraries is not None
    expected = {
        "libc10": [("/opt/torch/lib/libc10.so", None)],
        "libcublasLt": [("/opt/nvidia/libcublasLt.so.13.0.0.19", "13.0.0.19")],
        "libcuda": [("/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04", "580.159.04")],
        "libcudnn": [("/opt/nvidia/libcudnn.so.9.19.0", "9.19.0")],
        "libcudnn_graph": [("/opt/nvidia/libcudnn_graph.so.9", "9")],
        "libcurand": [("/usr/lib/libcurand.so.10", "10")],
        "libgomp": [("/opt/torch/lib/libgomp-24e2ab19.so.1.0.0", "1.0.0"), ("/usr/lib/libgomp.so.1.0.0", "1.0.0")],
        "libscipy_openblas64_": [("/opt/my env/numpy.libs/libscipy_openblas64_-56d6093b.so", None)],
    }
    assert expected == {name: [(file.path, file.version) for file in files] for name, files in libraries.items()}
    for files in libraries.values():
        for file in files:  # the tree has none of them
            assert {"build_id", "size_bytes"} == set(file.missing) - {"version"}
            assert (file.version is None) == ("version" in file.missing)


def test_library_file_in_the_tree_has_its_build_and_size(look: Look, place: Place) -> None:
    real = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line)
    root = place()
    (root / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    shutil.copy(real, root / "usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04")
    libraries = fingerprint.collect(gpus=False, root=root).software.libraries
    assert libraries is not None
    (found,) = libraries["libcuda"]
    assert (elf.build_id(Path(real)), os.path.getsize(real), {}) == (found.build_id, found.size_bytes, found.missing)


def seen_by(code: str, **variables: str) -> Software:
    """What a process of its own finds once it has run the code."""
    code += "; import sys, msgspec; from pathlib import Path"
    code += "; from primbench.environment.software import Software; from primbench.environment.reading import group_of"
    code += "; sys.stdout.buffer.write(msgspec.json.encode(group_of(Software, Path('/'))))"
    environ = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-P", "-c", code], env=environ, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Software)


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with a malloc of its own, of no name that tells it."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed: apt-get install gcc")
    path = tmp_path_factory.mktemp("libraries") / "patient.bin"
    source = "extern void *__libc_malloc(unsigned long); void *malloc(unsigned long n) { return __libc_malloc(n); }"
    command = ["gcc", "-shared", "-fPIC", "-Wl,--build-id", "-o", str(path), "-x", "c", "-"]
    subprocess.run(command, input=source, text=True, check=True, capture_output=True)
    return path


@pytest.mark.parametrize("folder_in_name", [True, False])
def test_a_preloaded_library_is_told_with_what_names_it_and_what_it_brings(patient: Path, folder_in_name: bool) -> None:
    name = str(patient) if folder_in_name else patient.name
    found = seen_by("pass", LD_PRELOAD=f"nosuch.so {name}", LD_LIBRARY_PATH=str(patient.parent))
    assert found.preloads is not None
    assert found.providers is not None
    assert {"LD_PRELOAD": [str(patient)]} == {
        where: [file.path for file in files] for where, files in found.preloads.items()
    }
    assert (str(patient), elf.build_id(patient)) == (found.providers["malloc"].path, found.providers["malloc"].build_id)
    assert found.libraries is not None
    assert patient.name in found.libraries


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that is loaded at a fixed address, and gives out a stub of its own for malloc, as Debian's does."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed: apt-get install gcc")
    version, folder = sysconfig.get_config_var("LDVERSION"), sysconfig.get_config_var("LIBDIR")
    path = tmp_path_factory.mktemp("fixed") / "fixed"
    source = (
        "#include <stdlib.h>\nint Py_BytesMain(int, char **); void *(*volatile asked)(size_t);"
        "int main(int count, char **words) { asked = malloc; return Py_BytesMain(count, words); }"
    )
    command = ["gcc", "-fno-pie", "-no-pie", "-o", str(path), "-x", "c", "-", f"-L{folder}", f"-Wl,-rpath,{folder}"]
    made = subprocess.run([*command, f"-lpython{version}", "-lm"], input=source, text=True, capture_output=True)
    if made.returncode:
        pytest.skip(f"this Python has no library to link with in {folder}: {made.stderr.strip().splitlines()[-1]}")
    return path


@pytest.mark.parametrize("called", ["python3", "bin/python3"])
def test_malloc_of_a_program_at_a_fixed_address_is_the_c_librarys_by_whatever_name_it_is_called(
    fixed: Path, called: str
) -> None:
    """Its own symbol is in the program itself, whose name is the one that it was called by, which is no path."""
    code = f"import sys; sys.path[:] = {sys.path!r}; import ctypes; from pathlib import Path"
    code += "; from primbench.environment import libraries; every = ctypes.CDLL(None)"
    code += "; print(libraries._file_at('malloc', every), libraries.providers(Path('/'))['malloc'].path)"
    done = subprocess.run(
        [called, "-P", "-c", code], executable=fixed, cwd=fixed.parent, capture_output=True, text=True, check=True
    )
    of_the_c_library = group_of(Software, Path("/")).providers
    assert of_the_c_library is not None
    assert [os.path.realpath(fixed), of_the_c_library["malloc"].path] == done.stdout.split()


def test_libraries_named_by_a_file_are_those_that_are_mapped(look: Look) -> None:
    text = "# for all\n/usr/lib/libcurand.so.10:/usr/lib/libnosuch.so\t/opt/$LIB/libgomp.so.1 # here\n"
    found = look({"etc/ld.so.preload": text}).software.preloads
    assert found is not None
    expected = {"/etc/ld.so.preload": ["/usr/lib/libgomp.so.1.0.0", "/usr/lib/libcurand.so.10"]}
    assert expected == {where: [file.path for file in files] for where, files in found.items()}


def test_what_numpy_multiplies_by_is_the_library_of_its_blas() -> None:
    pytest.importorskip("numpy", reason="numpy is missing: pip install numpy")
    found = seen_by("import numpy")
    assert found.providers is not None
    assert found.blas is not None
    assert is_c_library(found.providers["malloc"])
    kernels = [each.path for each in found.blas if each.name in ("openblas", "mkl", "blis", "flexiblas")]
    if not kernels:
        pytest.skip(
            "NumPy here has no BLAS that can be asked: it needs one of OpenBLAS, MKL, BLIS on this architecture"
        )
    assert kernels == [found.providers["NumPy's gemm"].path]


def test_a_numpy_without_a_blas_multiplies_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the module of another library: it calls nothing that multiplies."""
    import _ctypes

    monkeypatch.setitem(sys.modules, "numpy._core._multiarray_umath", _ctypes)
    found = group_of(Software, Path("/")).providers
    assert found is not None
    assert os.path.realpath(str(_ctypes.__file__)) == os.path.expanduser(found["NumPy's gemm"].path)


def test_threads_are_those_of_each_pool() -> None:
    pytest.importorskip("numpy", reason="numpy is missing: pip install numpy")
    found = seen_by("import numpy", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    assert found.threads is not None
    assert {1} >= {*found.threads.values()}


def test_interpreter_and_c_library_are_named(look: Look) -> None:
    found = look().software
    assert (platform.python_version(), sys.implementation.name) == (found.python_version, found.python_implementation)
    assert sys.executable == os.path.expanduser(str(found.python_executable))
    assert found.python_build is not None
    assert found.python_build.startswith(platform.python_compiler())
    assert " ".join(platform.libc_ver()) == found.libc or "libc" in found.missing


def test_compiler_options_that_matter_are_told(monkeypatch: pytest.MonkeyPatch, look: Look) -> None:
    told = {"CONFIG_ARGS": "'--enable-optimizations' '--with-lto=thin'", "Py_GIL_DISABLED": 1}
    monkeypatch.setattr("sysconfig.get_config_var", told.get)
    assert f"{platform.python_compiler()}, LTO, PGO, free-threaded" == look().software.python_build


@pytest.mark.parametrize(
    ("flags", "more"), [("-O3 -Wall -O0 -std=c11", ", -O0"), ("-Og -DPy_BUILD_CORE", ", -Og"), ("-O0 -g -O2", "")]
)
def test_the_last_level_that_an_interpreter_was_compiled_by_is_told_where_it_is_slow(
    monkeypatch: pytest.MonkeyPatch, look: Look, flags: str, more: str
) -> None:
    monkeypatch.setattr("sysconfig.get_config_var", {"PY_CORE_CFLAGS": flags}.get)
    assert f"{platform.python_compiler()}{more}" == look().software.python_build


def test_blas_at_work_is_named_with_its_kernels() -> None:
    code = (
        "import numpy; from primbench.environment import fingerprint; import msgspec, sys;"
        "sys.stdout.buffer.write(msgspec.json.encode(fingerprint.collect(gpus=False).software.blas))"
    )
    pytest.importorskip("numpy", reason="numpy is missing: pip install numpy")
    blas = json.loads(subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True).stdout)
    kernels = [each for each in blas if each["name"] in ("openblas", "mkl", "blis", "flexiblas")]
    if not kernels:
        pytest.skip(
            "NumPy here has no BLAS that can be asked: it needs one of OpenBLAS, MKL, BLIS on this architecture"
        )
    assert kernels[0]["version"]
    assert kernels[0]["threads"] >= 1
    assert kernels[0]["name"] != "openblas" or kernels[0]["architecture"]


def test_packages_are_those_on_the_path_that_matter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, look: Look
) -> None:
    folders = [
        "first/numpy-2.4.6.dist-info",
        "first/ml_dtypes-0.5.1.dist-info",
        "first/cupy_cuda13x-14.2.0.dist-info",
        "first/~umpy-1.0.dist-info",  # what an interrupted uninstallation leaves
        "first/numpydoc-1.0.dist-info",
        "first/requests-2.0.dist-info",
        "first/numpy",
        "second/numpy-1.26.0-py3.11.egg-info",
        "second/scipy-1.11.0.egg-info",
        "second/torch-2.13.0+cpu.dist-info",
    ]
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    path = [str(tmp_path / "first"), str(tmp_path / "absent.zip"), str(tmp_path / "second"), *sys.path]
    monkeypatch.setattr(sys, "path", path)
    expected = {
        "cupy-cuda13x": "14.2.0",
        "ml-dtypes": "0.5.1",
        "numpy": "2.4.6",
        "scipy": "1.11.0",
        "torch": "2.13.0+cpu",
    }
    found = look().software.packages or {}
    assert expected == {name: found.get(name) for name in expected}
    assert not {"numpydoc", "requests"} & set(found)


MODULES = {
    "ml-dtypes": "ml_dtypes", "cupy-cuda13x": "cupy", "numba-cuda": "numba.cuda", "cuda-bindings": "cuda.bindings",
    "cupti-python": "cupti", "nvidia-ml-py": "pynvml",
}  # fmt: skip


@pytest.mark.parametrize(("package", "module"), MODULES.items())
def test_a_package_is_imported_where_its_module_is_loaded(
    package: str, module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (package, "nvidia-cublas"):  # a package of libraries alone
        (tmp_path / f"{name.replace('-', '_')}-9.9.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, module, raising=False)
    before = group_of(Software, Path("/"))
    monkeypatch.setitem(sys.modules, module, ModuleType(module))
    after = group_of(Software, Path("/"))
    assert before.packages is not None
    assert after.packages is not None
    assert "9.9" == before.packages[package] == after.packages[package]
    assert before.imported is not None
    assert sorted({package, *before.imported}) == after.imported
    assert not {package, "nvidia-cublas"} & {*before.imported}


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No variables but those that a test sets."""
    for name in os.environ:
        monkeypatch.delenv(name)
    return monkeypatch


def test_variables_that_affect_speed_are_kept_and_secrets_are_not(clean: pytest.MonkeyPatch, look: Look) -> None:
    kept = {
        "CUDA_MODULE_LOADING": "LAZY",
        "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
        "LD_PRELOAD": "",
        "NCCL_DEBUG": "INFO",
        "NVSHMEM_SYMMETRIC_SIZE": "1G",
        "OMP_NUM_THREADS": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "backend:native",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/x",
        "UCX_TLS": "rc,cuda",
    }
    names = ["USER", "HOSTNAME", "NVIDIA_API_KEY", "TORCH_hub_token", "CUPY_PASSWORD", "NCCL_SECRET", "MY_CUDA_PATH"]
    for name, value in (kept | dict.fromkeys([*names, "NCCL_COMM_ID", "NCCL_HOSTID"], "s3cret")).items():
        clean.setenv(name, value)
    assert kept == look().software.variables


def test_home_is_nobodys(clean: pytest.MonkeyPatch, look: Look) -> None:
    clean.setenv("HOME", "/home/ada")
    clean.setenv("LD_LIBRARY_PATH", "/home/ada/lib:/opt/home/ada:/home/adam:/home/ada")
    clean.setenv("CUDA_HOME", "/home/ada/cuda\udcff")
    found = look().software.variables
    assert {"LD_LIBRARY_PATH": "~/lib:/opt/home/ada:/home/adam:~", "CUDA_HOME": "~/cuda\\xff"} == found


def test_configuration_files_are_known_by_their_content(clean: pytest.MonkeyPatch, look: Look) -> None:
    clean.setenv("HOME", "/home/ada")
    clean.setenv("NCCL_TOPO_FILE", "/opt/topo.xml")
    clean.setenv("NCCL_GRAPH_FILE", "/opt/absent.xml")
    found = look({"home/ada/.nccl.conf": "", "opt/topo.xml": ""}).software.files
    expected = {"/etc/nccl.conf": hashlib.sha256(b"NCCL_DEBUG=WARN\n").hexdigest()}
    assert expected | {"~/.nccl.conf": EMPTY, "/opt/topo.xml": EMPTY} == found


def test_caches_are_writable_or_say_why_not(clean: pytest.MonkeyPatch, look: Look) -> None:
    clean.setenv("HOME", "/home/ada")
    clean.setenv("CUPY_CACHE_DIR", "/etc/nccl.conf/cupy")
    clean.setenv("NUMBA_CACHE_DIR", "/made/when/needed")
    found = look({"home/ada/.triton": "a file"}).software.caches
    expected = {
        "CUDA_CACHE_PATH": "writable",
        "CUPY_CACHE_DIR": "/etc/nccl.conf is no folder",
        "NUMBA_CACHE_DIR": "writable",
        "TORCHINDUCTOR_CACHE_DIR": "writable",
        "TRITON_CACHE_DIR": "~/.triton is no folder",
    }
    assert expected == found


def test_torch_keeps_what_it_compiles_among_the_temporary_files(clean: pytest.MonkeyPatch, look: Look) -> None:
    clean.setenv("TMPDIR", "/etc/nccl.conf/tmp")
    assert "/etc/nccl.conf is no folder" == (look().software.caches or {})["TORCHINDUCTOR_CACHE_DIR"]


def test_cache_switched_off_is_said(clean: pytest.MonkeyPatch, look: Look) -> None:
    clean.setenv("CUDA_CACHE_DISABLE", "1")
    assert "disabled by CUDA_CACHE_DISABLE" == (look().software.caches or {}).get("CUDA_CACHE_PATH")


def test_cache_on_what_cannot_be_written_is_said(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("CUDA_CACHE_PATH", "/sys/kernel/cache" if os.geteuid() else "/proc/self/cache")
    found = (fingerprint.collect(gpus=False).software.caches or {})["CUDA_CACHE_PATH"]
    assert "writable" == found if os.access("/proc/self", os.W_OK) else "may not be written to" in found


def test_the_fullest_folder_that_modules_are_looked_for_in_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, count in (("few", 1), ("many", 3)):
        (tmp_path / folder).mkdir()
        for number in range(count):
            (tmp_path / folder / f"{number}").touch()
    monkeypatch.setattr(sys, "path", [f"{tmp_path}/{name}" for name in ("few", "many", "absent", "few/0")])
    assert 3 == facts_of(Software)["search_folder_entries"].value(Path("/"))


def test_what_looks_at_each_step_of_python_is_named() -> None:
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: None)
    try:
        assert "sys.setprofile" in facts_of(Software)["hooks"].value(Path("/"))
    finally:
        sys.setprofile(before)


def test_what_python_ran_at_its_start_and_what_that_set_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> tuple[dict[str, str], dict[str, str]]:
        start_code, settings = (facts_of(Software)[name].value(Path("/")) for name in ("start_code", "interpreter"))
        return start_code, settings

    before, usual = told()
    (tmp_path / "agent.pth").write_text("# none\n/opt/more\nimport gc\n")
    (tmp_path / "paths.pth").write_text("/opt/more\n")
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(tmp_path), str(tmp_path / "nosuch")])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, ModuleType("finder")])
    first, *others = gc.get_threshold()
    gc.set_threshold(first + 1, *others)
    try:
        found, settings = told()
    finally:
        gc.set_threshold(first, *others)
    assert ["agent.pth"] == [name for name in found if name not in before]
    assert {"finders", "garbage collection"} == {name for name, words in settings.items() if words != usual[name]}
