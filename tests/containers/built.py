"""Images that `primbench image` builds with real runtimes.

No registry of images is asked: the base that stands for python:X.Y-slim is made of this machine's own C library,
programs and Python. What pip installs into it comes from the index of Python packages.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import primbench
from primbench.runtimes import charliecloud
from primbench.runtimes.images.builder import DEFAULT_BASE

from .programs import program

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
PROGRAMS = ("sh", "awk", "cat", "chmod", "cp", "env", "id", "ln", "ls", "mkdir", "mv", "rm", "sed", "sleep", "true")
LIBRARIES = (
    "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1",
)  # fmt: skip
NOT_COPIED = shutil.ignore_patterns(
    "site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "ensurepip", "tkinter", "turtledemo",
    "pydoc_data", "config-*", "*.a",
)  # fmt: skip
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# To fetch and compile them would be most of each build; click alone is fetched, by what is built.
COPIED = (
    "numpy", "scipy", "pip", "pygments", "rich", "markdown-it-py", "mdurl", "ml_dtypes", "msgspec",
    "packaging", "threadpoolctl", "nvidia-ml-py",
)  # fmt: skip
UNUSED = {"tests"} | {  # of SciPy, whose sparse matrices and special functions are what primbench loads
    "cluster", "datasets", "fft", "fftpack", "integrate", "interpolate", "io", "ndimage", "odr", "optimize", "signal",
    "spatial", "stats",
}  # fmt: skip
OLD = "0.9.0"
RUNTIMES = ["podman", "docker", "charliecloud", "apptainer"]
PRIMBENCH = (sys.executable, "-P", "-m", "primbench")


def linked(programs: Iterable[Path]) -> set[Path]:
    """The shared libraries that programs and libraries load, and the loader."""
    done = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False, timeout=60)
    return {Path(found) for found in re.findall(r"(?:=> |^\t)(/\S+) \(0x", done.stdout, re.MULTILINE)}


def put(tree: Path, source: Path) -> None:
    """A file at its own path, links followed."""
    target = tree / source.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source.resolve(), target)


def index_of_packages() -> str:
    """pip's configuration inside: the index and the certificates that it uses here."""
    lines = ["[global]", "disable-pip-version-check = true"]
    lines += [f"cert = {CERTIFICATES}"] if CERTIFICATES.exists() else []
    lines += [f"index-url = {os.environ['PIP_INDEX_URL']}"] if "PIP_INDEX_URL" in os.environ else []
    return "\n".join([*lines, ""])


@pytest.fixture(scope="session")
def base(work: Path) -> Path:
    """The root file system of a small image with Python, pip and some packages from here, and an old tabulate."""
    if not [*importlib.metadata.distributions(name="pip")]:
        pytest.skip("module 'pip' is not installed, and it is put into the base")
    tree = work / "base"
    packages = make_user_land(tree)
    for name in COPIED:
        copy_package(name, packages, without=UNUSED if name == "scipy" else {"tests"})
    pip = [sys.executable, "-P", "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    done([*pip, "--target", packages, f"tabulate=={OLD}"], {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    compile_modules(packages)
    for source in filter(Path.exists, (CERTIFICATES, Path("/etc/os-release"))):
        put(tree, source)
    (tree / "etc/pip.conf").write_text(index_of_packages())
    return tree


def make_user_land(tree: Path) -> Path:
    """Programs, the C library and Python from here. Returns the folder of its packages, which is empty."""
    prefix, standard = Path(sys.base_prefix), Path("lib") / PYTHON
    for name in ("bin", "sbin", "lib", "lib64"):
        if (Path("/") / name).is_symlink():
            (tree / "usr" / name).mkdir(parents=True, exist_ok=True)
            (tree / name).symlink_to(f"usr/{name}")
    for name in ("proc", "sys", "dev", "run", "tmp", "root", "home", "mnt", "etc", "var/tmp", "usr/local/bin"):
        (tree / name).mkdir(parents=True)
    (tree / "tmp").chmod(0o1777)
    shutil.copytree(prefix / standard, tree / "usr/local" / standard, ignore=NOT_COPIED)
    shutil.copy2(prefix / "bin" / PYTHON, tree / "usr/local/bin")
    (tree / "usr/local/bin/python3").symlink_to(PYTHON)
    programs = [Path(shutil.which(name, path=SEARCHED) or f"{name} is nowhere") for name in PROGRAMS]
    loading = [*programs, *libraries(), prefix / "bin" / PYTHON, *(prefix / standard / "lib-dynload").glob("*.so")]
    for source in {*programs, *libraries(), *linked(loading)}:
        put(tree, source)
    (tree / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (tree / "etc/group").write_text("root:x:0:\n")
    for name in ("hosts", "resolv.conf"):  # bound over
        (tree / "etc" / name).touch()
    packages = tree / "usr/local" / standard / "site-packages"
    packages.mkdir()
    return packages


def libraries() -> list[Path]:
    """Those that wheels take from the system."""
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True, timeout=60).stdout
    lines = [line.split() for line in known.splitlines() if "=>" in line]
    return [next(Path(words[-1]) for words in lines if words[0] == name) for name in LIBRARIES]


def copy_package(name: str, folder: Path, without: Set[str] = frozenset()) -> None:
    """What is installed here, but for programs. without: folders at any depth."""
    for file in importlib.metadata.files(name) or []:
        if not {"..", *without} & {*file.parts} and (source := Path(str(file.locate()))).exists():
            put_compiled(source, folder / file)


def put_compiled(source: Path, target: Path) -> None:
    """A file, and what Python made of it when it was first imported, which pip knows nothing of."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
    if source.suffix == ".py" and (made := Path(cache_from_source(str(source)))).exists():
        (target.parent / "__pycache__").mkdir(exist_ok=True)
        shutil.copy2(made, target.parent / "__pycache__")


def copy_primbench(packages: Path) -> None:
    """As it is here, but for the larger files of results."""
    shutil.copytree(Path(primbench.__file__).parent, packages / "primbench", ignore=shutil.ignore_patterns("*.xz"))


def compile_modules(folder: Path) -> None:
    """Else each process in a container compiles all that it imports, and where that is read-only keeps none of it."""
    done([sys.executable, "-P", "-m", "compileall", "-q", folder], os.environ)


@pytest.fixture(scope="session")
def base_archive(base: Path, work: Path) -> Path:
    path = work / "base.tar"
    subprocess.run(["tar", "--create", "--file", path, "--directory", base, "."], check=True, timeout=60)
    return path


class Built(NamedTuple):
    """said: what --json held. study: the command that was printed. environment: where the runtime finds the image."""

    runtime: str
    said: Any
    study: str
    environment: dict[str, str]

    @property
    def image(self) -> str:
        """As an arm names it."""
        found: str = self.said["name"]
        return found

    def start(self, *arguments: str) -> str:
        """What primbench prints in the image, started as the runtime does it, by nobody in particular if it can."""
        engine = ("run", "--rm", "--network=none", "--user=1000", self.image)
        return done([*{
            "docker": ("docker", *engine),
            "podman": ("podman", *engine),
            "apptainer": ("apptainer", "run", "--cleanenv", self.image),
            "charliecloud": ("ch-run", self.image, "--", "/usr/local/bin/primbench"),  # it heeds no entry point
        }[self.runtime], *arguments], self.environment)  # fmt: skip


@pytest.fixture(scope="session", params=RUNTIMES)
def built(request: pytest.FixtureRequest, work: Path, base: Path, base_archive: Path) -> Built:
    """An image by each runtime, built once."""
    engine = request.getfixturevalue(request.param)
    environment, for_building, arguments = {**os.environ, **engine.environment}, {}, []
    if engine.name == "apptainer":
        arguments = ["--base", str(base), "--tag", str(work / "primbench.sif")]
        for_building = {
            "PATH": f"{with_all_capabilities(work)}:{os.environ['PATH']}",
            "APPTAINER_MKSQUASHFS_ARGS": "-noI -noD -noF -noX",  # compressing takes half a minute
        }
    elif engine.name == "charliecloud":
        program("ch-image", "apt-get install charliecloud-builders")
        environment |= {"CH_IMAGE_STORAGE": str(work / "ch-image")}
        environment |= {"CH_IMAGE_CACHE": "disabled"}  # a git repository of every file, made anew
        done(["ch-image", "import", base_archive, DEFAULT_BASE], charliecloud.environment(environment))
    else:
        for_building = {"BUILDAH_LAYERS": "false"}  # Podman's else commits each line of the file
        done([engine.name, "import", base_archive, DEFAULT_BASE], environment)
    said = work / f"{engine.name}-built.json"
    command = [*PRIMBENCH, "image", "--runtime", engine.name, *arguments, "--json", str(said)]
    *_, study = done(command, environment | for_building).splitlines()
    return Built(engine.name, json.loads(said.read_text()), study, environment)


def with_all_capabilities(work: Path) -> Path:
    """A folder for PATH: Apptainer builds with every capability that Linux has, which root may lack on this machine.

    Root of a user namespace of its own has them.
    """
    program("mksquashfs", "apt-get install squashfs-tools")
    script = work / "with-all-capabilities/apptainer"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec unshare --map-root-user {shutil.which("apptainer")} "$@"\n')
    script.chmod(0o755)
    return script.parent


def done(command: Sequence[str | Path], environment: Mapping[str, str]) -> str:
    """What a command prints; it must end well."""
    found = subprocess.run(
        command, env=environment, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip
    assert 0 == found.returncode, found.stdout + found.stderr
    return found.stdout


@pytest.fixture
def found_by_runtime(built: Built, monkeypatch: pytest.MonkeyPatch) -> Built:
    for name, value in built.environment.items():
        monkeypatch.setenv(name, value)
    return built
