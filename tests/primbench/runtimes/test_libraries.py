"""Libraries of another place on this machine, by name before others and by path in their places: compiled here."""

from __future__ import annotations

import ctypes  # noqa: F401 - maps libffi
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from primbench.errors import BackendUnavailable, InvalidRequest
from primbench.experiments.why.ingredients import Mixtures
from primbench.runtimes.invocation import variables
from primbench.runtimes.placed import inside, placed
from primbench.spec.arm import parse_arm
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Start

compiled = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing: apt-get install gcc")

SLOW_GETPPID = """
#include <sys/syscall.h>
extern long syscall(long, ...);
int getppid(void) { for (volatile int turn = 0; turn < 300; turn++); return syscall(SYS_getppid); }
"""


def compile_library(path: Path, *options: str, source: str = "int nothing(void) { return 0; }") -> None:
    command = ["gcc", "-O1", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", str(path), "-x", "c", "-", *options]
    subprocess.run(command, input=source, text=True, check=True, capture_output=True, timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """libone.so.1 needs libtwo++.so.1, and that libthree.so, which is called by no name of its own."""
    found = tmp_path / "libraries"
    found.mkdir()
    compile_library(found / "libthree.so")
    compile_library(found / "libtwo++.so.1.5", f"-L{found}", "-l:libthree.so", "-Wl,-soname,libtwo++.so.1")
    (found / "libtwo++.so.1").symlink_to("libtwo++.so.1.5")
    compile_library(found / "libone.so.1", f"-L{found}", "-l:libtwo++.so.1", "-Wl,-soname,libone.so.1")
    (found / "libtext.so").write_text("GROUP ( libone.so.1 )\n")
    return found


@compiled
def test_a_folder_is_its_libraries_each_with_what_it_needs(folder: Path) -> None:
    arm = parse_arm(f"host:libraries={folder}")
    assert arm.libraries == (
        f"libone.so.1@{folder}/libone.so.1:{folder}/libtwo++.so.1.5:{folder}/libthree.so",
        f"libthree.so@{folder}/libthree.so",
        f"libtwo++.so.1@{folder}/libtwo++.so.1.5:{folder}/libthree.so",
    )
    ingredients = Mixtures(parse_arm("host"), arm).ingredients
    assert [f"libraries={each}" for each in arm.libraries] == [each.words for each in ingredients]


@compiled
def test_what_a_library_needs_is_found_where_it_is(folder: Path, tmp_path: Path) -> None:
    """Unless another of its name is asked for."""
    other = tmp_path / "other.so"
    shutil.copy(folder / "libthree.so", other)
    one, *_ = parse_arm(f"host:libraries={folder}").libraries
    searched = variables(parse_arm(f"host:libraries={one}+libthree.so@{other}"), tmp_path)["LD_LIBRARY_PATH"]
    front, *_ = searched.split(":")
    assert {
        "libone.so.1": str(folder / "libone.so.1"),
        "libtwo++.so.1": str(folder / "libtwo++.so.1.5"),
        "libthree.so": str(other),
    } == {each.name: os.readlink(each) for each in Path(front).iterdir()}


@compiled
def test_in_an_image_a_library_is_bound_where_it_is_looked_for(folder: Path, tmp_path: Path) -> None:
    """By each of the paths that the image has, links followed as from there."""
    tree = tmp_path / "image"
    for name in ("usr/lib", "opt"):
        (tree / name).mkdir(parents=True)
    (tree / "lib").symlink_to("usr/lib")
    (tree / "usr/lib/libblas.so.3").touch()
    (tree / "opt/linked.so").symlink_to("/lib/libblas.so.3")
    file = folder / "libone.so.1"
    words = f"/opt/linked.so:/lib/libblas.so.3:/absent.so@{file}:{folder}/libthree.so"
    arm = parse_arm(f"runc:image={tree},libraries={words}")
    front = "/tmp/primbench-libraries"
    expected = [(str(file), "/usr/lib/libblas.so.3"), (f"{folder}/libthree.so", f"{front}/libthree.so")]
    assert expected == placed(arm, tmp_path)
    assert front == variables(arm, tmp_path)["LD_LIBRARY_PATH"]
    with pytest.raises(InvalidRequest, match=r"there is no /absent\.so to be replaced"):
        placed(parse_arm(f"runc:image={tree},libraries=/absent.so@{file}"), tmp_path)
    with pytest.raises(InvalidRequest, match=f"there is no {tree}/absent"):
        placed(parse_arm(f"runc:image={tree},libraries=/opt/linked.so@{tree}/absent"), tmp_path)


def test_links_of_another_root_lead_nowhere_out_of_it(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("../../../etc/passwd")
    (tmp_path / "loop").symlink_to("loop")
    assert [None, None, "/"] == [inside(tmp_path, each) for each in ("/a", "/loop", "/..")]


@compiled
@pytest.mark.parametrize("runtime", ["host", "runc"])
def test_a_worker_has_what_comes_before_others(runtime: str, tmp_path: Path) -> None:
    """zlib, which Python's own modules load; in a container, too, where one starts."""
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libz.so" in line}
    if not mapped:
        pytest.skip("Python brings its own zlib")
    (tmp_path / "libz.so.1").write_bytes(Path(*mapped).read_bytes() + b"longer")
    arm = parse_arm(f"{runtime}:libraries={tmp_path}")
    worker = WorkerProcess(Start(backend="numpy", device="cpu"), arm=arm)
    try:
        libraries = worker.ready.environment.software.libraries or {}
    except BackendUnavailable as refused:
        if runtime == "host":
            raise
        pytest.skip(str(refused))
    finally:
        worker.end()
    assert [(tmp_path / "libz.so.1").stat().st_size] == [each.size_bytes for each in libraries["libz"]]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who alone binds files")
def test_a_worker_on_the_host_has_a_library_in_the_place_of_another(tmp_path: Path) -> None:
    """And nobody else."""
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libffi." in line}
    if not mapped:
        pytest.skip("Python brings its own libffi")
    (path,) = mapped
    (tmp_path / "other").write_bytes(Path(path).read_bytes() + b"longer")
    arm = parse_arm(f"host:libraries={path}@{tmp_path}/other")
    worker = WorkerProcess(Start(backend="numpy", device="cpu"), arm=arm)
    try:
        libraries = worker.ready.environment.software.libraries or {}
    except BackendUnavailable as refused:
        if "mounting" in str(refused):
            pytest.skip(str(refused))
        raise
    finally:
        worker.end()
    size = (tmp_path / "other").stat().st_size
    assert [size] == [each.size_bytes for each in libraries["libffi"]]
    assert size != Path(path).stat().st_size


@compiled
def test_a_library_that_is_found_elsewhere_refuses_the_arm(tmp_path: Path) -> None:
    """As where a program or a wheel's own file says by itself where its libraries are: NumPy's BLAS is such."""
    pytest.importorskip("numpy")
    mapped = Path("/proc/self/maps").read_text().split()
    blas = {os.path.basename(each) for each in mapped if "/numpy.libs/libscipy_openblas" in each}
    if not blas:
        pytest.skip("this NumPy is no wheel")
    compile_library(tmp_path / "another.so")
    arm = parse_arm(f"host:libraries={min(blas)}@{tmp_path}/another.so")
    worker = WorkerProcess(Start(backend="numpy", device="cpu"), arm=arm)
    with pytest.raises(BackendUnavailable, match="what loads it may name its folder by itself: PATH@FILE puts it in"):
        worker.ready  # noqa: B018


@compiled
@pytest.mark.quiet
@pytest.mark.skipif(not sysconfig.get_config_var("Py_ENABLE_SHARED"), reason="Python has no library of its own")
def test_why_names_the_library_by_its_file(tmp_path: Path, invoke: Callable[..., Result]) -> None:
    """Of those that lie in a folder: one hands on to Python's own all but one call, the other nobody asks for."""
    name = sysconfig.get_config_var("INSTSONAME")
    held = Path(sysconfig.get_config_var("LIBDIR")) / name
    renamed = name.replace("python", "nohtyp")
    (tmp_path / renamed).write_bytes(held.read_bytes().replace(name.encode(), renamed.encode()))
    needs = (f"-L{tmp_path}", f"-l:{renamed}", "-Wl,--allow-shlib-undefined", f"-Wl,-soname,{name}")
    compile_library(tmp_path / name, *needs, source=SLOW_GETPPID)
    compile_library(tmp_path / "libharmless.so")
    result = invoke(
        "why", "host", f"host:libraries={tmp_path},umask=0077,name=other", "--primitive", "launch --call getppid",
        "--backend", "numpy", "--time-budget", "100s", "-q",
    )  # fmt: skip
    assert f"because of libraries={name}@{tmp_path}/{name}:{tmp_path}/{renamed} (" in result.stdout, result.output


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("libm.so.6", "a path in full"),
        ("/proc", "no library lies there: name a folder of such"),
        ("libm.so.6@relative", "'libm.so.6@relative': a name, such as libm.so.6"),
        ("m@/x", "'m@/x': a name, such as libm.so.6"),
        ("liba.so@/x+liba.so@/y", "libraries: liba.so is given twice"),
        ("/a:/b@/x+/b@/y", "libraries: /b is given twice"),
        ("liba.so@/x,first.LD_LIBRARY_PATH=/y", "libraries with another setting of LD_LIBRARY_PATH"),
    ],
)
def test_what_names_no_library_is_refused(value: str, told: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(told)):
        parse_arm(f"host:libraries={value}")
