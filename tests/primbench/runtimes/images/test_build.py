"""What images are built from, and by which commands."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path

import pytest

from primbench.errors import BackendUnavailable, InvalidRequest
from primbench.runtimes.images import build, pins
from primbench.runtimes.images.build import builders, installed
from primbench.runtimes.images.builder import DEFAULT_BASE, ImageRequest
from primbench.runtimes.invocation import PATH


def command(runtime: str, **asked: object) -> list[str]:
    return builders()[runtime].command(ImageRequest(runtime=runtime, **asked))  # type: ignore[arg-type]


@pytest.mark.parametrize("runtime", ["docker", "podman"])
def test_an_engine_builds_from_the_folder_it_is_in(runtime: str) -> None:
    assert [
        *(runtime, "build", "--network=host", "--file=Containerfile", "--tag=here:1"),
        *("--build-arg=BASE=python:3.12-slim", "--build-arg=EXTRAS=torch,cuda13", "."),
    ] == command(runtime, tag="here:1", base="python:3.12-slim", extras=("torch", "cuda13"))


@pytest.mark.parametrize(
    ("tag", "named"), [("here", "here:latest"), ("here:1", "here:1"), ("there:5000/here", "there:5000/here:latest")]
)
def test_charliecloud_is_given_a_tag_always(tag: str, named: str) -> None:
    found = command("charliecloud", tag=tag, base="b")
    assert ["ch-image", "build", f"--tag={named}", "--file=Containerfile"] == found[:4]
    assert ["--build-arg=BASE=b", "--build-arg=EXTRAS=", "."] == found[4:]
    assert named == builders()["charliecloud"].name(tag)


def test_apptainer_writes_a_file_where_it_was_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [
        *("apptainer", "build", "--force", "--build-arg=BOOTSTRAP=docker", "--build-arg=BASE=python:3.12-slim"),
        *("--build-arg=EXTRAS=numba", str(tmp_path / "a.sif"), "primbench.def"),
    ] == command("apptainer", tag="a.sif", base="python:3.12-slim", extras=("numba",))
    assert str(tmp_path / "a.sif") == builders()["apptainer"].name("a.sif")


def test_apptainer_takes_a_folder_as_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root").mkdir()
    monkeypatch.chdir(tmp_path)
    found = command("apptainer", tag="a.sif", base="root")
    assert {"--build-arg=BOOTSTRAP=localimage", f"--build-arg=BASE={tmp_path / 'root'}"} < set(found)


def test_apptainer_replaces_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="is a folder"):
        command("apptainer", tag=str(tmp_path))
    with pytest.raises(InvalidRequest, match=f"there is no folder {tmp_path}/absent"):
        command("apptainer", tag=str(tmp_path / "absent/a.sif"))


@pytest.mark.parametrize("asked", [{"tag": ""}, {"tag": "-v"}, {"base": "a b"}, {"base": "--pull"}])
def test_what_is_no_name_of_an_image_is_refused(asked: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match="the name of an image"):
        command("podman", **asked)


def test_ch_image_gets_what_is_meant_for_it_and_the_python_beside_it(tmp_path: Path) -> None:
    """It hands its environment to what it runs in the image."""
    program = tmp_path / "ch-image"
    program.touch(0o755)
    environ = {
        "PATH": f"/venv/bin:{tmp_path}", "PYTHONPATH": "/mine", "VIRTUAL_ENV": "/venv", "LD_PRELOAD": "/x.so",
        "CH_IMAGE_STORAGE": "/images", "https_proxy": "http://proxy", "HOME": "/root", "HF_TOKEN": "secret",
    }  # fmt: skip
    found = builders()["charliecloud"].environment(environ)
    assert getpass.getuser() == found.pop("USER")
    kept = {name: environ[name] for name in ("CH_IMAGE_STORAGE", "https_proxy", "HOME")}
    assert kept | {"PATH": f"{tmp_path}:{PATH}"} == found
    assert environ == builders()["podman"].environment(environ)


def test_the_base_is_this_python() -> None:
    assert "python:{}.{}-slim".format(*sys.version_info) == DEFAULT_BASE


@pytest.mark.parametrize("runtime", builders())
def test_a_runtime_that_is_not_here_is_named(runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendUnavailable, match=f"^--runtime {runtime}: .* is not installed: `primbench arms` lists"):
        build.build(ImageRequest(runtime=runtime, tag=str(tmp_path / "image")))


def test_an_extra_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidRequest, match=r"--extra trch: primbench .* has .*cuda13.*torch"):
        build.build(ImageRequest(runtime="podman", extras=("trch",)))


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("context")
    build.fill(folder, installed(), ["test"])
    return folder


def test_an_image_is_built_from_recipes_pins_and_a_wheel(context: Path) -> None:
    (wheel,) = context.glob("*.whl")
    there = {path.name for path in context.iterdir()}
    assert {"Containerfile", "primbench.def", "install.sh", "constraints.txt", wheel.name} == there
    for name in ("wheel", "constraints.txt", "install.sh"):
        named = "primbench-*.whl" if name == "wheel" else name
        assert named in (context / "Containerfile").read_text()
        assert named in (context / "primbench.def").read_text()
    assert pins.constraints(["test"]) == (context / "constraints.txt").read_text().splitlines()


def test_the_size_of_a_charliecloud_image_is_that_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CH_IMAGE_STORAGE", str(tmp_path))
    folder = tmp_path / "img/there%here+1/bin"
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(bytes(1000))
    os.link(folder / "a", folder / "b")
    (folder / "c").write_bytes(bytes(10))
    assert 1010 == builders()["charliecloud"].size_bytes("there/here:1")
    assert f"there is no folder {tmp_path}/img/x+1" == builders()["charliecloud"].size_bytes("x:1")


def test_a_size_that_no_engine_tells_is_unknown_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "podman is not installed" == builders()["podman"].size_bytes("primbench")
