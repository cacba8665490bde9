"""`primbench doctor` under real conditions made on this machine, which it must find."""

from __future__ import annotations

import ctypes
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

from primbench.doctor import table
from primbench.doctor.cause import Finding
from primbench.doctor.place import Place
from primbench.system.cgroups import cgroup_folders

from .examined import Document, examined

SECCOMP = Path(__file__).parents[2] / "seccomp.py"
PR_SET_THP_DISABLE = 41


def found_in(evidence: Sequence[str], words: str) -> bool:
    return any(words in line for line in evidence)


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
    (found,) = [finding for finding in table.examine(place) if finding.cause == "locked-memory"]
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
    """At first one of which a millisecond is too much: a larger one is not used up where others take the CPUs."""
    file, too_little, given = (
        ("cpu.cfs_quota_us", "1000", "30000") if is_v1("cpu") else ("cpu.max", "1000 100000", "30000 100000")
    )
    folder = group("cpu", {file: too_little})
    held_back = f"until grep -q '^nr_throttled [1-9]' {folder}/cpu.stat; do :; done; echo {given} > {folder}/{file}"
    (found,) = examined(*into(folder), "sh", "-c", f'{held_back}; exec "$@"', "sh").of("cpu-quota")
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
        while not (found := waits()) and time.monotonic() < deadline:
            time.sleep(1)
    assert ["warning"] == [finding.severity for finding in found]


def waits() -> list[Finding]:
    """Without what the hypervisor gave away, which may be found on any day."""
    return [finding for finding in examined().of("cpu-contention") if "last 10 s" in finding.summary]


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def soft_limit(kind: int, value: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


def first_new(document: Document, quiet: Document, provoked: str = "") -> list[Finding]:
    """What the place says that it does not say when nothing is provoked, in the order in which it is shown.

    provoked: of what is measured.
    """
    known = {(finding.cause, finding.summary) for finding in quiet.findings}
    shown = [each for level in ("problem", "warning", "note") for each in document.findings if each.severity == level]
    return [
        each for each in shown if each.cause not in MEASURED - {provoked} and (each.cause, each.summary) not in known
    ]


@pytest.fixture(scope="module")
def quiet() -> Iterator[Document]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OPENBLAS_CORETYPE", raising=False)  # which is provoked, and set on some machines
        yield examined()


# Another at each look.
MEASURED = {"clock", "cpu-contention", "file-opens", "interruptions", "packets", "page-cache", "system-calls"}
FILTERED = (sys.executable, "-P", str(SECCOMP), "--deny", "io_uring_setup", "--")
PROVOKED: list[tuple[str, Sequence[str], Callable[[], object] | None, dict[str, str]]] = [
    ("open-files", (), soft_limit(resource.RLIMIT_NOFILE, 1000), {}),
    ("few-cpus", (), lambda: os.sched_setaffinity(0, {max(os.sched_getaffinity(0))}), {}),
    ("priority", (), lambda: os.nice(5), {}),
    ("io-uring", FILTERED, None, {}),
    ("variables", (), None, {"OMP_PROC_BIND": "true"}),
    ("variables", (), None, {"OPENBLAS_CORETYPE": "Nehalem"}),
]


@pytest.mark.parametrize(("check", "before", "prepare", "variables"), PROVOKED)
def test_what_is_provoked_is_named_first(
    quiet: Document,
    check: str,
    before: Sequence[str],
    prepare: Callable[[], object] | None,
    variables: dict[str, str],
) -> None:
    if check == "few-cpus" and quiet.place.environment.machine.cpus_total == 1:
        pytest.skip("fewer CPUs than the machine has need a machine of two")
    found = first_new(examined(*before, prepare=prepare, **variables), quiet)
    assert check in [finding.cause for finding in found[:1]], found


def test_a_session_that_comes_last_is_named_first(quiet: Document) -> None:
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("the kernel has no /proc/self/autogroup: CONFIG_SCHED_AUTOGROUP")

    def come_last() -> None:
        os.setsid()
        Path("/proc/self/autogroup").write_text("5")  # beside a busy session 19 would have a seventieth of a CPU

    found = first_new(examined(prepare=come_last), quiet)
    assert ("priority", True) == (found[0].cause, "niceness 5 of the session" in found[0].summary)


def test_a_preload_is_named_first(quiet: Document) -> None:
    loaded = next(
        path for line in Path("/proc/self/maps").read_text().splitlines() if "/libm" in (path := line.split()[-1])
    )
    found = first_new(examined(LD_PRELOAD=loaded), quiet)
    assert ("preloads", True) == (found[0].cause, found_in(found[0].evidence, loaded))


def test_modules_without_bytecode_are_named_first(quiet: Document, tmp_path: Path) -> None:
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy/__init__.py").touch()
    found = first_new(examined(PYTHONPATH=str(tmp_path), PYTHONDONTWRITEBYTECODE="1"), quiet)
    assert ("bytecode", True) == (found[0].cause, found_in(found[0].evidence, "__pycache__ of cupy: PYTHONDONT"))


@pytest.mark.wheel
def test_a_home_on_fuse_overlayfs_is_named_first(quiet: Document, tmp_path: Path) -> None:
    for program in ("fuse-overlayfs", "unshare"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing: apt-get install fuse-overlayfs util-linux")
    for name in ("lower", "upper", "work", "home"):
        (tmp_path / name).mkdir()
    layers = ",".join(f"{name}dir={tmp_path}/{name}" for name in ("lower", "upper", "work"))
    mount = f"fuse-overlayfs -o {layers} {tmp_path}/home 2> /dev/null"
    # Its program would live on in the namespace, which then would be there for it alone.
    ran = f'"$@"; code=$?; umount {tmp_path}/home; exit $code'
    before = ["unshare", "--mount", "sh", "-c", f"{mount} && {{ {ran}; }}", "sh"]
    tried = subprocess.run([*before, "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"fuse-overlayfs needs root and /dev/fuse: {tried.stderr.strip()}")
    found = first_new(examined(*before, HOME=f"{tmp_path}/home"), quiet)[0]
    assert ("filesystems", True) == (found.cause, found_in(found.evidence[:1], "home: fuse.fuse-overlayfs")), found


@pytest.mark.wheel
def test_kernels_of_an_older_processor_are_named() -> None:
    """By a process that has loaded the library, as workers have."""
    look = (
        "import msgspec, numpy; from primbench.doctor import place; print(msgspec.json.encode(place.look()).decode())"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", look],
        env=os.environ | {"OPENBLAS_CORETYPE": "Nehalem"},
        capture_output=True,
        check=True,
    )
    place = msgspec.json.decode(done.stdout, type=Place)
    if "Nehalem" not in [blas.architecture for blas in place.environment.software.blas or []]:
        pytest.skip("NumPy's BLAS on this architecture has no kernels of an older processor")
    found = [(finding.cause, finding.summary) for finding in table.examine(place)]
    for check, words in (
        ("vector-instructions", "openblas takes kernels for processors without AVX2"),
        ("variables", "OPENBLAS_CORETYPE is set"),
    ):
        assert any(name == check and words in summary for name, summary in found), found


def test_a_real_limit_of_processes(quiet: Document, group: Group) -> None:
    refused = "for each in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2 & done 2> /dev/null"
    document = examined(*into(group("pids", {"pids.max": "9"})), "sh", "-c", f'({refused}); sleep 0.4; exec "$@"', "sh")
    found = first_new(document, quiet)[0]
    assert ("processes", "problem") == (found.cause, found.severity)
    assert "a thread or a process was refused" in found.summary


def test_a_real_limit_of_reading(quiet: Document, group: Group) -> None:
    device = os.stat(os.__file__).st_dev
    disk = f"{os.major(device)}:{os.minor(device)}"
    v1 = is_v1("blkio")
    limit = {"blkio.throttle.read_bps_device": f"{disk} 9000000"} if v1 else {"io.max": f"{disk} rbps=9000000"}
    found = first_new(examined(*into(group("blkio", limit))), quiet)[0]
    assert ("io-limits", True) == (found.cause, f"{disk} rbps=9000000" in found.summary)


def test_files_that_a_memory_limit_has_read_again(quiet: Document, group: Group, tmp_path: Path) -> None:
    limit = {"memory.limit_in_bytes" if is_v1("memory") else "memory.max": str(2**26)}
    data = f"'{tmp_path}/data'"
    read = f"head -c {3 * 2**25} /dev/zero > {data}; sync {data}; for each in 1 2 3; do cat {data} > /dev/null; done"
    found = first_new(
        examined(*into(group("memory", limit)), "sh", "-c", f'{read}; exec "$@"', "sh"), quiet, "page-cache"
    )
    assert "page-cache" in [finding.cause for finding in found[:1]], found
