"""The wheel: what is in it, and that it works where the repository is not; and what a checkout keeps to itself."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).parents[1]
SOURCES = ("primbench", "containers", "docs", "kernels", "suites")


def run(*command: str | Path, cwd: Path) -> str:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    found = subprocess.run(command, cwd=cwd, env=outside, capture_output=True, text=True, timeout=240, check=False)
    assert 0 == found.returncode, found.stdout + found.stderr
    return found.stdout


def folders_with(name: str) -> set[Path]:
    """Links to the folders at the top of the tree followed: as a package sees itself."""
    package = ROOT / "primbench"
    inside = [package, *(each for each in package.iterdir() if each.is_symlink())]
    return {file.parent.relative_to(ROOT) for folder in inside for file in folder.rglob(name)}


OTHERS_NAMES = {"containers", "docs", "kernels"}  # have no __init__.py, so that anybody's package comes before them
PACKAGES = {".".join(folder.parts) for folder in folders_with("__init__.py")} | {
    f"primbench.{name}" for name in OTHERS_NAMES
}


def test_every_folder_of_code_is_a_package_but_those_of_names_that_others_have() -> None:
    assert {Path("primbench/docs")} == folders_with("*.py") - folders_with("__init__.py")
    assert not {Path("primbench") / name for name in OTHERS_NAMES} & folders_with("__init__.py")
    assert not (ROOT / "bench/__init__.py").exists()
    assert {f"primbench.{name}" for name in SOURCES[1:]} <= PACKAGES


@pytest.mark.parametrize("part", ["", ".kernels.gemm"])
def test_a_folder_called_primbench_above_a_clone_does_not_hide_it(part: str, tmp_path: Path) -> None:
    """Python looks in the folder it stands in first, and a folder without code must not come before the package."""
    (tmp_path / "primbench").mkdir()
    run(sys.executable, "-c", f"from primbench{part} import __file__", cwd=tmp_path)


@pytest.mark.parametrize("by", ["the folder", "PYTHONPATH"])
def test_a_checkout_on_the_path_leaves_a_package_called_kernels_to_others(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is none, its folder of that name has neither version nor file, and so is no package to anybody."""
    asks = "import kernels, primbench.kernels.gemm; print(getattr(kernels, '__version__', None), kernels.__file__)"
    first = ["-c", f"import sys; sys.path.append({str(tmp_path)!r})\n" + asks]
    if by == "PYTHONPATH":
        first[1] = f"import sys; sys.path.insert(1, {str(ROOT)!r})\n" + first[1]
    folder = ROOT if by == "the folder" else tmp_path.parent
    assert "None None\n" == run(sys.executable, *first, cwd=folder)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/__init__.py").write_text("__version__ = '9.9'\n")
    assert f"9.9 {tmp_path}/kernels/__init__.py\n" == run(sys.executable, *first, cwd=folder)


HF_MODEL = """
import torch, transformers as T
config = T.BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
model = T.BertForMaskedLM(config)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(4):
    tokens = torch.randint(0, 64, (2, 8))
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
"""


def test_a_checkout_on_the_path_is_no_hindrance_to_transformers_whose_model_is_captured(tmp_path: Path) -> None:
    """It asks whether there is a package ``kernels``, and imports names from what it finds."""
    for module in ("torch", "transformers"):
        if find_spec(module) is None:
            pytest.skip(f"module {module!r} is not installed: pip install {module}")
    (tmp_path / "train.py").write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{HF_MODEL}")
    step = tmp_path / "step.toml"
    run(
        sys.executable,
        "-P",
        "-m",
        "primbench",
        "capture",
        "--step",
        "3",
        tmp_path / "train.py",
        "-o",
        step,
        cwd=tmp_path,
    )
    assert 'label = "addmm"' in step.read_text()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy to build from, so that the repository stays as it is."""
    if not (ROOT / "README.md").exists():
        pytest.skip("README.md is not there, and pyproject.toml names it")
    for module in ("build", "setuptools"):  # by a file of theirs: a folder that a build left has the name of the first
        if (spec := find_spec(module)) is None or spec.origin is None:
            pytest.skip(f"module {module!r} is not installed, and building without isolation needs it")
    copy = tmp_path_factory.mktemp("source")
    tracked = [*SOURCES, "src", "pyproject.toml", "README.md", "LICENSE"]
    run("cp", "-rP", *(ROOT / name for name in tracked), copy, cwd=copy)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", source / "dist", source, cwd=source)
    (found,) = (source / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def contents(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def test_wheel_claims_no_top_level_name_but_its_own(contents: set[str]) -> None:
    version = "primbench-" + (ROOT / "primbench/__init__.py").read_text().split('__version__ = "')[1].split('"')[0]
    assert {"primbench", f"{version}.dist-info"} == {name.split("/")[0] for name in contents}


def test_wheel_holds_all_code_and_data(contents: set[str]) -> None:
    expected = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for pattern in (
            "*.py",
            "*.toml",
            "Containerfile",
            "*.def",
            "*.sh",
            "*.cu",
            "*.cuh",
            "*.css",
            "*.js",
            "*.md",
            "filters/*",
            "NOTICE",
            "py.typed",
            "published/*",
            "reference/*",
            "studies/*",
        )
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
        if path.is_file() and path.parent != ROOT / "primbench/docs/reference"  # made for a site
    }
    assert {"primbench/py.typed", "primbench/suites/NOTICE", "primbench/kernels/conv/implicit_gemm.cu"} <= expected
    assert expected == {name for name in contents if name.startswith("primbench/")}


def test_wheel_holds_the_licences(contents: set[str]) -> None:
    names = {name.partition(".dist-info/")[2] for name in contents}
    assert {"licenses/LICENSE", "licenses/suites/NOTICE"} <= names


def test_an_editable_install_exposes_no_name_but_its_own(source: Path, tmp_path: Path) -> None:
    if not [*distributions(name="pip")]:  # find_spec("pip") warns where torch.compile has imported distutils
        pytest.skip("module 'pip' is not installed, and installing needs it")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--ignore-installed",
        "--disable-pip-version-check", "--prefix", tmp_path, "--editable", source, cwd=tmp_path)  # fmt: skip
    (packages,) = tmp_path.glob("lib/python*/site-packages")
    asks = (
        f"import importlib.util, site; site.addsitedir({str(packages)!r})\n"
        f"print([name for name in {['primbench', *SOURCES[1:], 'bench', 'tests']} if importlib.util.find_spec(name)])\n"
        "print(importlib.util.find_spec('primbench').origin)"
    )
    exposed, origin = run(sys.executable, "-I", "-S", "-c", asks, cwd=tmp_path).splitlines()
    assert "['primbench']" == exposed
    assert source / "primbench/__init__.py" == Path(origin).resolve()
    assert (Path(origin).parent / "kernels/gemm/problem.py").exists()


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; its dependencies are those of this Python, but not the repository."""
    if not [*distributions(name="pip")]:  # find_spec("pip") warns where torch.compile has imported distutils
        pytest.skip("module 'pip' is not installed, and installing the wheel needs it")
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False)
    (packages,) = home.glob("lib/python*/site-packages")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--disable-pip-version-check",
        "--target", packages, wheel, cwd=home)  # fmt: skip
    # Hooks of an editable install are .pth files, which are not read from a folder that is only on the path.
    (packages / "dependencies.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    return home / "bin/python"


def test_wheel_is_what_the_fresh_environment_imports(python: Path, tmp_path: Path) -> None:
    found = run(python, "-c", "import primbench; print(primbench.__file__)", cwd=tmp_path)
    assert python.parents[1] in Path(found.strip()).parents


def test_every_public_module_of_the_wheel_imports(python: Path, contents: set[str], tmp_path: Path) -> None:
    files = [name for name in contents if name.endswith(".py") and not name.endswith("__main__.py")]
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files}
    assert PACKAGES - {f"primbench.{name}" for name in OTHERS_NAMES} <= modules
    public = sorted(name for name in modules if "._" not in name)  # a private one may need its framework
    run(python, "-c", f"import importlib\nfor name in {public}: importlib.import_module(name)", cwd=tmp_path)


def test_program_of_the_wheel_works(python: Path, tmp_path: Path) -> None:
    program = (python, "-m", "primbench")
    assert run(*program, "--version", cwd=tmp_path).startswith("primbench, version ")
    assert "deepbench" in run(*program, "list", "suites", cwd=tmp_path)
    sizes = ("-m", "4", "-n", "4", "-k", "4")
    find = (
        "from importlib.metadata import distribution as d; "
        "(e,) = d('primbench').entry_points.select(group='console_scripts'); print(e.load().__name__)"
    )
    assert "main" == run(python, "-c", find, cwd=tmp_path).strip()
    assert " ok" in run(*program, "gemm", *sizes, "--backend", "numpy", "--dry-run", cwd=tmp_path)


@pytest.mark.parametrize("name", ["kernels", "suites"])
def test_wheel_leaves_the_names_of_its_folders_to_others(name: str, python: Path, tmp_path: Path) -> None:
    found = run(python, "-c", f"import importlib.util; print(importlib.util.find_spec({name!r}))", cwd=tmp_path)
    assert "None" == found.strip()
