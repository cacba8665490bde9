"""`primbench doctor`: what it prints and writes, and real conditions made on this machine that it must find."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from primbench.cli.doctor import command
from primbench.doctor import checks, place
from primbench.doctor.finding import Finding
from primbench.doctor.place import Place
from primbench.errors import FileError, InvalidRequest
from primbench.report.doctor import to_text
from primbench.system.cgroups import cgroup_folders

DOCTOR = (sys.executable, "-P", "-m", "primbench", "doctor")
SECCOMP = Path(__file__).parents[2] / "seccomp.py"
PR_SET_THP_DISABLE = 41


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """What --json writes."""

    place: Place
    findings: list[Finding]

    def of(self, check: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.check == check and finding.severity != "ok"]


def examined(*before: str, prepare: Callable[[], object] | None = None, **variables: str) -> Document:
    """What the real command writes, with a command put before it, or a call made before it starts."""
    done = subprocess.run(
        [*before, *DOCTOR, "--json", "-"],
        capture_output=True,
        preexec_fn=prepare,
        env=os.environ | variables,
        timeout=120,
    )
    assert (b"", True) == (done.stderr, done.returncode in (0, 1)), done.stderr.decode()
    document = msgspec.json.decode(done.stdout, type=Document)
    assert done.returncode == any(finding.severity == "problem" for finding in document.findings)
    return document


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def found_in(evidence: Sequence[str], words: str) -> bool:
    return any(words in line for line in evidence)


def test_a_problem_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    result = invoke()
    assert 1 == result.exit_code
    assert "problem: variables: CUDA_LAUNCH_BLOCKING is set: every launch waits" in result.stdout
    assert "\x1b" not in result.stdout


def test_fix_prints_commands_with_a_comment_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    shown = invoke("--fix").stdout
    block = shown[shown.index("# Commands that change") :].splitlines()
    assert "unset NCCL_P2P_DISABLE" in block
    assert block[block.index("unset NCCL_P2P_DISABLE") - 1].startswith("# nccl-variables: ")
    assert "unset NCCL_P2P_DISABLE" not in invoke().stdout


def test_worst_comes_first_and_one_reason_is_told_once() -> None:
    findings = [
        Finding(check="n", severity="note", summary="worth knowing"),
        Finding(check="u", severity="unknown", summary="could not be seen", evidence=["a: no such file"]),
        Finding(check="p", severity="problem", summary="wrong"),
        Finding(check="v", severity="unknown", summary="could not be seen", evidence=["b: no such file"]),
        Finding(check="w", severity="warning", summary="moves results"),
        Finding(check="o", severity="ok", summary="fine"),
    ]
    shown = to_text(place.look(), findings, fix=False)
    assert shown.index("wrong") < shown.index("moves results") < shown.index("worth knowing")
    assert "could not be seen: u (a), v (b): no such file\n" in shown
    assert shown.endswith("1 problem, 1 warning, 1 note; 1 checks found nothing to say\n")


def test_json_document_goes_to_the_file_and_the_text_to_stdout(tmp_path: Path) -> None:
    path = tmp_path / "here.json"
    assert "This place: " in invoke("--json", str(path)).stdout
    document = msgspec.json.decode(path.read_bytes(), type=Document)
    assert {"place", "findings"} == json.loads(path.read_bytes()).keys()
    assert sorted(os.sched_getaffinity(0)) == document.place.environment.limits.cpus_allowed


def test_against_says_which_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "there.json"
    invoke("--json", str(there))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    shown = invoke("--against", str(there)).stdout
    assert f"against-threads: OMP_NUM_THREADS is 1 here and none in {there}" in " ".join(shown.split())


def test_against_says_so_where_nothing_differs(tmp_path: Path) -> None:
    there = tmp_path / "there.json"
    invoke("--json", str(there))
    shown = invoke("--against", str(there)).stdout
    words = f"nothing that is known to move results differs between here and {there}"
    assert f"note: against: of what both tell, {words}" in shown


def test_text_is_as_narrow_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding(check="c", severity="note", summary="s", advice="word " * 40)
    monkeypatch.setenv("COLUMNS", "70")
    assert 60 < max(map(len, to_text(place.look(), [finding], fix=True).splitlines()[1:])) <= 70


def test_refuses_what_it_cannot_read_or_write_before_it_looks(tmp_path: Path) -> None:
    for arguments, error in (
        (("--against", str(tmp_path / "none")), FileError),
        (("--json", str(tmp_path / "none/x.json")), InvalidRequest),
        (("--json", "same", "--against", "same"), InvalidRequest),
    ):
        with pytest.raises(error):
            invoke(*arguments)
    assert 2 == invoke("--strict").exit_code


def test_is_quick_to_import_and_imports_no_framework() -> None:
    code = (
        "import sys; from primbench.cli.doctor import command\n"
        "try: command([])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'torch', 'cupy', 'numba', 'scipy', 'tabulate'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.splitlines()[-1]


# ---- real conditions


def test_a_real_filter_that_denies_memory_policy() -> None:
    before = (sys.executable, "-P", str(SECCOMP), "--deny", "set_mempolicy,mbind", "--")
    document = examined(*before)
    (found,) = document.of("memory-policy")
    assert ["set_mempolicy: EPERM", "mbind: EPERM"] == found.evidence
    assert "filter" == document.place.environment.confinement.seccomp
    without = examined()
    allowed = without.place.environment.confinement.set_mempolicy == "allowed"
    assert allowed == (without.of("memory-policy") == [])


def test_huge_pages_switched_off_for_the_process() -> None:
    libc = ctypes.CDLL(None)
    (found,) = examined(prepare=lambda: libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)).of("huge-pages")
    assert "warning" == found.severity
    if "never" not in found.evidence[0]:
        assert found_in(found.evidence, "prctl(PR_GET_THP_DISABLE): 1")


def test_locked_memory_of_a_real_limit() -> None:
    limit = min(65536, resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] % 2**63)
    document = examined(prepare=lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit)))
    assert limit == document.place.environment.limits.memlock_bytes
    machine = msgspec.structs.replace(document.place.environment.machine, infiniband=["mlx5_0"])
    place = msgspec.structs.replace(
        document.place, environment=msgspec.structs.replace(document.place.environment, machine=machine)
    )
    (found,) = [finding for finding in checks.examine(place) if finding.check == "locked-memory"]
    assert "problem" == found.severity


def test_small_shared_memory_of_a_real_mount() -> None:
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    before = ["unshare", *as_root, "--mount", "sh", "-c"]
    mount = "mount -t tmpfs -o size=64m tmpfs /dev/shm"
    if shutil.which("unshare") is None:
        pytest.skip("a small /dev/shm needs unshare, of util-linux")
    tried = subprocess.run([*before, mount], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"a small /dev/shm needs root, or the right to mount a tmpfs: {tried.stderr.strip()}")
    (found,) = examined(*before, f'{mount} && exec "$@"', "sh").of("shared-memory")
    assert found.severity in ("warning", "problem")
    assert "/dev/shm holds 64 MiB only" in found.summary


Group = Callable[[str, dict[str, str]], Path]


@pytest.fixture
def group() -> Iterator[Group]:
    """``group(controller, files)``: a control group below that of this process, with these files written."""
    with ExitStack() as closing:

        def make(controller: str, files: dict[str, str]) -> Path:
            try:
                above = cgroup_folders(controller)[0]
                folder = Path(tempfile.mkdtemp(prefix="primbench-test-", dir=above))
                closing.callback(folder.rmdir)
                for name, text in files.items():
                    (folder / name).write_text(text)
            except (OSError, ValueError) as error:
                pytest.skip(f"a control group for {controller} needs root, and one that may have children: {error}")
            return folder

        yield make


def into(*folders: Path) -> list[str]:
    """A command to put before another, which then runs in the control groups."""
    moves = " && ".join(f"echo $$ > {folder / 'cgroup.procs'}" for folder in folders)
    return ["sh", "-c", f'{moves} && exec "$@"', "sh"]


def is_v1(controller: str) -> bool:
    try:
        return not (cgroup_folders(controller)[0] / "cgroup.controllers").exists()
    except (OSError, ValueError):
        return False


def test_a_real_quota_that_holds_back(group: Group) -> None:
    files = {"cpu.cfs_quota_us": "30000"} if is_v1("cpu") else {"cpu.max": "30000 100000"}
    folder = group("cpu", files)
    spin = f"{sys.executable} -c 'import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass'"
    (found,) = examined(*into(folder), "sh", "-c", f'{spin}; exec "$@"', "sh").of("cpu-quota")
    assert "problem" == found.severity
    assert "grants 0.3 of the" in found.summary
    assert found_in(found.evidence, "held back in ")


def test_a_real_cpuset(group: Group) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("a cpuset smaller than the machine needs a machine of two CPUs")
    if not is_v1("cpuset"):
        pytest.skip("the cpuset of a control group v2 needs root and a delegated group; the virtual machine tests it")
    mems = (cgroup_folders("cpuset")[0] / "cpuset.mems").read_text()
    folder = group("cpuset", {"cpuset.cpus": str(cpus[-1]), "cpuset.mems": mems})
    document = examined(*into(folder), OMP_NUM_THREADS="2")
    assert [cpus[-1]] == document.place.environment.limits.cpus_allowed
    (found,) = document.of("threads")
    assert "OMP_NUM_THREADS=2 asks for more threads than the 1 CPUs" in found.summary


@pytest.mark.slow
def test_cpus_that_are_really_contended() -> None:
    if not Path("/proc/pressure/cpu").exists():
        pytest.skip("the kernel must be booted, by root, with psi=1: there is no /proc/pressure/cpu")
    cpu = max(os.sched_getaffinity(0))
    spin = f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
    with ExitStack() as closing:
        for _ in range(2):
            closing.callback(kill, subprocess.Popen([sys.executable, "-P", "-c", spin]))
        deadline = time.monotonic() + 60
        while not (found := examined().of("cpu-contention")) and time.monotonic() < deadline:
            time.sleep(1)
    assert ["warning"] == [finding.severity for finding in found if "last 10 s" in finding.summary]


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
