"""`primbench doctor PID` of real processes: what is found is theirs, not that of who looks."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import Result

from .examined import Document, decoded

SECCOMP = Path(__file__).parents[2] / "seccomp.py"
# Its name is no UTF-8, as one that the kernel cut in the middle of a letter.
WAIT = r"import sys; open('/proc/self/comm', 'wb').write(b'caf\xc3'); print(flush=True); sys.stdin.read()"

Start = Callable[..., int]
Invoke = Callable[..., Result]


@pytest.fixture
def start() -> Iterator[Start]:
    """``start(*before, prepare, **variables)``: the number of a process that does nothing until the test ends."""
    with ExitStack() as closing:

        def started(*before: str, prepare: Callable[[], object] | None = None, **variables: str) -> int:
            process = subprocess.Popen(
                [*before, sys.executable, "-P", "-c", WAIT],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=prepare, env={"HOME": "/h"} | variables,  # noqa: PLW1509 - one thread
            )  # fmt: skip
            closing.enter_context(process)
            assert process.stdout is not None
            assert b"\n" == process.stdout.readline()
            return process.pid

        yield started


def examined(invoke: Invoke, pid: int) -> Document:
    return decoded(invoke("doctor", pid, "--json", "-").stdout)


def test_what_is_found_is_the_other_process_s(invoke: Invoke, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    cpu = max(os.sched_getaffinity(0))

    def prepare() -> None:
        os.sched_setaffinity(0, {cpu})
        os.nice(7)
        for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK):
            resource.setrlimit(kind, (999, resource.getrlimit(kind)[1]))

    deny = (sys.executable, "-P", str(SECCOMP), "--deny", "io_uring_setup", "--")
    pid = start(*deny, prepare=prepare, OMP_NUM_THREADS="77", LD_BIND_NOW="1", LD_PRELOAD="libm.so.6")
    found = examined(invoke, pid)
    place, limits = found.place, found.place.environment.limits
    assert (pid, [cpu], os.nice(0) + 7) == (place.pid, limits.cpus_allowed, limits.niceness)
    assert (999, 999) == (limits.open_files, limits.memlock_bytes)
    assert "filter" == place.environment.confinement.seccomp
    assert "77" == place.variables["OMP_NUM_THREADS"]
    assert "NCCL_P2P_DISABLE" not in place.variables, "it is ours"
    executable = place.environment.software.python_executable or ""
    assert os.path.realpath(sys.executable) == os.path.expanduser(executable)
    for check, words in (
        ("threads", "OMP_NUM_THREADS=77 asks for more threads than the 1 CPUs"),
        ("priority", f"niceness {os.nice(0) + 7}"),
        ("open-files", "999 files may be open"),
        ("variables", "LD_BIND_NOW is set"),
        ("preloads", "is put before all other libraries by LD_PRELOAD"),
    ):
        assert any(words in each.summary for each in found.of(check)), check


def test_its_libraries_are_those_it_has_loaded(invoke: Invoke, start: Start, tmp_path: Path) -> None:
    (libm,) = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libm.so" in line}
    shutil.copy(libm, strange := tmp_path / "lib\udcff.so")
    found = examined(invoke, start(LD_PRELOAD=str(strange))).place.environment.software.libraries
    assert found is not None
    assert {"libc", r"lib\xff"} <= found.keys()
    assert not any(name.startswith("msgspec/") for name in found), "which only we have loaded"


def test_what_only_it_could_tell_is_unknown_and_no_guess(invoke: Invoke, start: Start) -> None:
    environment = examined(invoke, pid := start()).place.environment
    confinement, software = environment.confinement, environment.software
    for part, field in ((confinement, "io_uring"), (confinement, "system_call_s"), (software, "packages")):
        assert (None, f"only process {pid} itself could tell") == (getattr(part, field), part.missing[field])


def test_its_own_small_shared_memory(invoke: Invoke, start: Start) -> None:
    before = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "sh", "-c"]
    mount = "mount -t tmpfs -o size=16m tmpfs /dev/shm"
    if subprocess.run([*before, mount], capture_output=True).returncode:
        pytest.skip("a small /dev/shm needs util-linux's unshare and root, or the right to mount a tmpfs")
    found = examined(invoke, start(*before, f'{mount} && exec "$@"', "sh"))
    assert 2**24 == found.place.environment.limits.shm_bytes
    assert [True] == ["/dev/shm holds 16 MiB only" in each.summary for each in found.of("shared-memory")]


def test_of_another_user_s_what_is_refused_is_unknown_with_the_command_that_shows_it(start: Start) -> None:
    if os.geteuid() != 0:
        pytest.skip("to become another user takes root")
    look = (
        "import os, sys, msgspec; from pathlib import Path; from primbench.doctor import place, table\n"
        "place.look(); table.examine(place.look(pid=os.getpid()))\n"  # imports all, which another user may not read
        "os.setuid(65534); found = place.look(pid=int(sys.argv[1]))\n"
        "print(msgspec.json.encode({'place': found, 'findings': table.examine(found)}, enc_hook=str).decode())"
    )
    pid = start(prepare=lambda: os.sched_setaffinity(0, {0}) if 0 in os.sched_getaffinity(0) else None)
    done = subprocess.run([sys.executable, "-P", "-c", look, str(pid)], capture_output=True, check=True)
    found = decoded(done.stdout)
    software = found.place.environment.software
    assert (None, f"/proc/{pid}/environ: EACCES") == (software.variables, software.missing["variables"])
    assert (None, f"/proc/{pid}/maps: EACCES") == (software.libraries, software.missing["libraries"])
    assert sorted(os.sched_getaffinity(pid)) == found.place.environment.limits.cpus_allowed
    (unseen,) = found.of("variables")
    assert ("unknown", [f"sudo primbench doctor {pid}"]) == (unseen.severity, unseen.fix)


def test_a_process_that_is_not_there_is_one_line(refusal: Callable[..., str]) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert f"process {ended.pid}: there is none of this number here" in refusal("doctor", ended.pid)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("0",), "process 0: numbers of processes begin with 1"),
        (("no-such-container",), "container 'no-such-container': docker: "),
    ],
)
def test_what_is_no_process_is_one_line(refusal: Callable[..., str], arguments: tuple[str, ...], words: str) -> None:
    assert words in refusal("doctor", *arguments)


def test_the_container_of_a_client_that_knows_its_process(
    invoke: Invoke, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the client of an engine, of which none runs everywhere."""
    pid = start()
    (tmp_path / "docker").write_text("#!/bin/sh\necho Error: no such object; exit 1\n")
    (tmp_path / "podman").write_text(f'#!/bin/sh\n[ "$1" = inspect ] && echo {pid}\n')
    for name in ("docker", "podman"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    found = invoke("doctor", "job", "--json", "-")
    assert pid == decoded(found.stdout).place.pid
