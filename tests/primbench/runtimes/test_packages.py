"""Packages of another environment before those here: two real ones, made with venv, of planted packages."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from primbench.errors import InvalidRequest
from primbench.experiments.why.ingredients import Mixtures
from primbench.runtimes.invocation import variables
from primbench.spec.arm import parse_arm

SLOW_START = "import time\ntime.sleep(0.05)\n"
PRINTS = "import needed, planted, shared.of_planted; print(planted.VERSION, needed.VERSION)"


def plant(packages: Path, name: str, version: str, files: dict[str, str], *requires: str) -> None:
    """As an installer leaves a distribution."""
    metadata = f"{name}-{version}.dist-info/METADATA"
    needed = "".join(f"Requires-Dist: {each}\n" for each in requires)
    said = {**files, metadata: f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}"}
    for path, text in said.items():
        (packages / path).parent.mkdir(parents=True, exist_ok=True)
        (packages / path).write_text(text)
    record = packages / metadata.replace("METADATA", "RECORD")
    record.write_text("".join(f"{path},,\n" for path in (*said, "../../../bin/planted")))


def environment(folder: Path, version: str, start: str = "") -> Path:
    """Where one has its packages."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python3*/site-packages")
    start_code = {"sitecustomize.py": start, "shared/of_planted.py": ""}
    own = {name: {f"{name}/__init__.py": f"VERSION = '{version}'\n"} for name in ("planted", "needed")}
    plant(packages, "planted", version, own["planted"] | start_code, "needed>=1", "absent; extra == 'all'")
    plant(packages, "needed", version, own["needed"])
    plant(packages, "other", version, {"shared/of_other.py": ""})
    plant(packages, "numba", "0.0.1", {"numba_of_nobody.py": ""})
    plant(packages, "primbench", "0.0.0", {"primbench/__init__.py": ""})
    return packages


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("environments")
    return environment(folder / "one", "1.0"), environment(folder / "two", "2.0", SLOW_START)


def printed(words: str, folder: Path, program: str) -> str:
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=variables(parse_arm(words), folder), check=True, text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    return done.stdout.strip()


def test_an_environment_is_its_packages_that_are_others_here(packages: tuple[Path, Path]) -> None:
    one = packages[0]
    names = ("needed", "numba", "other", "planted")  # and not what measures
    assert tuple(f"{name}@{one}" for name in names) == parse_arm(f"host:packages={one.parents[2]}").packages
    assert parse_arm(f"host:packages={one}") == parse_arm(f"host:packages={one.parents[2]}")


def test_what_a_package_requires_comes_with_it_and_nothing_else(packages: tuple[Path, Path], tmp_path: Path) -> None:
    one, two = packages
    assert "1.0 1.0" == printed(f"host:packages=planted@{one}", tmp_path / "a", PRINTS)
    assert "1.0 2.0" == printed(f"host:packages=planted@{one}+needed@{two}", tmp_path / "b", PRINTS)
    linked = tmp_path / "a" / "caches/linked/shared"
    assert ["of_planted.py"] == [each.name for each in linked.glob("*.py")], "beside what Python compiled"


def test_each_package_of_two_environments_is_an_ingredient(packages: tuple[Path, Path]) -> None:
    one, two = packages
    mixtures = Mixtures(*(parse_arm(f"host:packages={each}") for each in packages))
    assert [f"packages={name}@{two}" for name in ("needed", "numba", "other", "planted")] == [
        each.words for each in mixtures.ingredients
    ]
    assert (f"needed@{one}", f"numba@{one}", f"other@{two}", f"planted@{one}") == mixtures.arm(frozenset([2])).packages


def test_a_worker_sees_whether_it_has_them(packages: tuple[Path, Path], invoke: Callable[..., Result]) -> None:
    """And a study says so in the words of the arm, not as a variable."""
    arms = ["--arm", "host", "--arm", f"host:packages=numba@{packages[0]},name=other"]
    result = invoke(
        "study", *arms, "--primitive", "launch --call getppid", "--backend", "numpy", "--pairs", "1",
        "--max-time", "1ms", "--min-time", "1ms", "-q",
    )  # fmt: skip
    assert f"packages is not set in host and numba@{packages[0]} in other" in result.stdout, result.output
    assert "variable numba" not in result.stdout


@pytest.mark.quiet
def test_why_names_the_package_that_starts_slowly(packages: tuple[Path, Path], invoke: Callable[..., Result]) -> None:
    result = invoke(
        "why", *(f"host:packages={each},name={each.parents[2].name}" for each in packages),
        "--primitive", "startup --what interpreter", "--backend", "numpy", "--max-time", "10ms",
        "--min-time", "1ms", "--time-budget", "100s", "-q",
    )  # fmt: skip
    assert f"because of packages=planted@{packages[1]} (" in result.stdout, result.output


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("planted", "a path in full"),
        ("/proc", "no package lies there: name an environment"),
        ("planted@relative", "'planted@relative': a package's name, an @ and its folder in full"),
        ("a@/x+a@/y", "packages: a is given twice"),
        ("a@/x,unset=PYTHONPATH", "packages with another setting of PYTHONPATH"),
        ("a@/x,first.PYTHONPATH=/y", "packages with another setting of PYTHONPATH"),
    ],
)
def test_what_no_environment_is_is_refused(value: str, told: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(told)):
        parse_arm(f"host:packages={value}")


def test_packages_of_another_python_are_refused(tmp_path: Path) -> None:
    (tmp_path / "lib/python3.4/site-packages").mkdir(parents=True)
    with pytest.raises(InvalidRequest, match=re.escape("of Python 3.4, and here is ")):
        parse_arm(f"host:packages={tmp_path}")


def test_a_package_that_is_not_there_is_refused(tmp_path: Path, packages: tuple[Path, Path]) -> None:
    with pytest.raises(InvalidRequest, match="no such package lies there"):
        variables(parse_arm(f"host:packages=absent@{tmp_path}"), tmp_path)
