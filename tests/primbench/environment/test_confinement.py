from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from primbench.environment import confinement, costs
from primbench.environment.filesystems import filesystems, steps_to_temporary_files
from primbench.environment.fingerprint import Environment

Look = Callable[..., Environment]


def test_every_field_is_read_from_its_file(look: Look) -> None:
    found = look().confinement
    expected = {
        "seccomp": "filter",
        "seccomp_filters": 3,
        "no_new_privileges": True,
        "speculation_store_bypass": "thread force mitigated",
        "speculation_indirect_branch": "conditional force disabled",
        "capabilities": ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SYS_NICE", "CAP_41"],
        "lsm_profile": "docker-default (enforce)",
        "namespaces": {
            "cgroup": "cgroup:[4026531835]",
            "mnt": "mnt:[4026533001]",
            "pid": "pid:[4026533002]",
            "user": "user:[4026531837]",
        },
        "root_user": True,
        "user_map": ["0 1000 1", "1 100000 65536"],
        "root_filesystem": "overlay",
        "far_mounts": {"/models": "nfs4"},
        "probed": False,
        "locked_bytes": 0,
        "tracer": "none",
        "umask": "0027",
    }
    assert expected == {name: getattr(found, name) for name in expected}
    assert {} == found.missing
    assert {"overlay on /"} == set((found.filesystems or {}).values())
    assert {"strictatime"} == set((found.access_times or {}).values())
    asked = {
        "runtime", "filesystems", "transparent_hugepage_disabled", "executable_pages",
        "set_mempolicy", "mbind", "move_pages",
        "io_uring", "system_call_s", "open_file_s", "open_temporary_s", "interruptions_hz", "loopback", "missing",
        "packet_s", "access_times", "temporary_steps", "watchers", "disks", "read_ahead_bytes",
        "noexec", "calls_s",
    }  # fmt: skip
    assert set(found.__struct_fields__) == {*expected, *asked}
    assert found.runtime is not None
    assert found.runtime.in_container


def test_a_folder_lies_in_the_deepest_mount_and_of_those_at_one_point_in_the_last(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = {"/": "ext4", "/data": "nfs4", "/data/near": "xfs", "/home": "ext4", "/tmp": "tmpfs"}
    lines = [f"2{n} 1 0:{n} / {point} rw - {kind} x rw\n" for n, (point, kind) in enumerate(mounts.items())]
    lines.append("30 1 0:30 / /home rw - 9p x rw\n")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("TMPDIR", "/data/nearby")
    monkeypatch.setenv("CUDA_CACHE_PATH", "/data/near")
    monkeypatch.setenv("TRITON_CACHE_DIR", "~/cache")
    found = look({"proc/self/mountinfo": "".join(lines)}).confinement.filesystems
    assert found is not None
    expected = {
        "home": "9p on /home", "temporary files": "nfs4 on /data", "CUDA_CACHE_PATH": "xfs on /data/near",
        "TRITON_CACHE_DIR": "9p on /home",
    }  # fmt: skip
    assert expected == {name: found[name] for name in expected}


def test_no_word_of_access_times_where_no_mount_has_any(look: Look) -> None:
    found = look({"proc/self/mountinfo": "20 1 254:0 / / rw - 9p none rw\n"}).confinement
    assert ({}, "9p on /") == (found.access_times, (found.filesystems or {})["home"])


def test_what_files_take_over_from_their_folder_is_told_with_its_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, set_ = 0x80086601, 0x40086602
    opened = os.open(tmp_path, os.O_RDONLY)
    try:
        (own,) = struct.unpack("I4x", fcntl.ioctl(opened, read, bytes(8)))
        fcntl.ioctl(opened, set_, struct.pack("I4x", own | 0x8))
    except OSError as error:
        pytest.skip(f"no attributes can be set in {tmp_path}: {error}")
    finally:
        os.close(opened)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert "(sync)" in filesystems(Path("/"))["temporary files"]


@pytest.mark.parametrize(("where", "more"), [("a/b", 2), ("a/link", 3), ("a/b/../up", 6)])
def test_names_on_the_way_are_those_that_links_stand_for_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, more: int
) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/link").symlink_to("b")
    (tmp_path / "a/up").symlink_to("../a")
    monkeypatch.setenv("TMPDIR", str(tmp_path.resolve()))
    above = steps_to_temporary_files()
    monkeypatch.setenv("TMPDIR", f"{tmp_path.resolve()}/{where}")
    assert above + more == steps_to_temporary_files()


def test_system_calls_answer(look: Look) -> None:
    found = look().confinement
    assert isinstance(found.transparent_hugepage_disabled, bool)
    assert 0 < (found.system_call_s or 0) < 0.001
    for name in ("set_mempolicy", "mbind", "move_pages"):
        assert getattr(found, name) in ("allowed", "EPERM", "ENOSYS", "EACCES")


def test_several_system_calls_are_timed_by_name() -> None:
    found = costs.calls_s(Path("/"))
    assert {"mmap", "clone", *(["futex"] if os.uname().machine in costs.FUTEX else [])} == found.keys()
    assert min(found.values()) > 0


def test_where_no_thread_may_be_started_the_other_calls_are_timed() -> None:
    """Each asks for a larger stack than there may be addresses."""
    tell = (
        "import pathlib, resource, threading; from primbench.environment import costs\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28)); threading.stack_size(2**30)\n"
        "print(*costs.calls_s(pathlib.Path('/')))"
    )
    done = subprocess.run([sys.executable, "-c", tell], capture_output=True, text=True, check=True)
    assert ["mmap"] == [name for name in done.stdout.split() if name != "futex"]


def test_what_is_compiled_in_a_folder_mounted_noexec_cannot_be_loaded(tmp_path: Path) -> None:
    tell = (
        "from pathlib import Path; from primbench.environment.filesystems import noexec as ask; print(*ask(Path('/')))"
    )
    mount = 'mount -t tmpfs -o "$1" none "$2" && exec "$3" -c "$4"'
    told = []
    for options in ("noexec", "exec"):
        command = ["unshare", "-rm", "sh", "-c", mount, "sh", options, str(tmp_path), sys.executable, tell]
        environment = {**os.environ, "TMPDIR": str(tmp_path), "TRITON_CACHE_DIR": "/"}
        environment.pop("TORCHINDUCTOR_CACHE_DIR", None)  # which torch sets where it has compiled something
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        told.append(done.stdout.strip())
    assert ["temporary files TORCHINDUCTOR_CACHE_DIR", ""] == told


# Tells of itself, once it is told to go on.
TELL = """
import msgspec, pathlib
print(flush=True)
input()
from primbench.environment import costs
from primbench.environment.confinement import Confinement
from primbench.environment.reading import group_of
found = group_of(Confinement, pathlib.Path("/"))
print(msgspec.json.encode([found.tracer, found.watchers, found.system_call_s, found.missing]).decode())
"""


@pytest.mark.parametrize(
    ("command", "is_seen"),
    [
        (("strace", "-o", "/dev/null", "-p"), lambda watched, by: "TracerPid:\t0\n" not in status(watched)),
        (("perf", "trace", "-o", "/dev/null", "-p"), lambda watched, by: "anon_inode:[perf_event]" in files(by)),
    ],
)
def test_who_looks_at_each_system_call_is_seen_where_it_can_be(
    command: tuple[str, ...], is_seen: Callable[[int, int], bool]
) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is missing")
    told = subprocess.Popen(
        [sys.executable, "-P", "-c", TELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert told.stdout is not None
    told.stdout.readline()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    looking = subprocess.Popen([*command, str(told.pid)], **quiet)  # type: ignore[call-overload]
    try:
        deadline = time.monotonic() + 20
        while not is_seen(told.pid, looking.pid):
            if looking.poll() is not None or time.monotonic() > deadline:
                pytest.skip(f"{command[0]} may not look at another process here")
            time.sleep(0.02)
        tracer, watchers, call_s, missing = msgspec.json.decode(told.communicate("\n", timeout=60)[0])
    finally:
        told.kill()
        looking.kill()
        told.communicate()
        looking.wait()
    assert not missing.keys() & {"tracer", "watchers"}
    name = f"{looking.pid} ({command[0]})"
    assert name in [tracer, *watchers]
    assert call_s > 1e-6


def status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def files(pid: int) -> list[str]:
    """What its numbers of files stand for; it may have ended."""
    try:
        return [str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []


def test_of_quick_system_calls_nobody_is_looked_for(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("primbench.environment.costs.system_call_s", lambda root, calls=1: 0.2e-6)
    monkeypatch.setattr(confinement, "processes", lambda root: pytest.fail("all processes were looked through"))
    assert [] == look().confinement.watchers


@pytest.mark.parametrize(("mode", "expected"), [("0", "disabled"), ("1", "strict"), ("7", None)])
def test_seccomp_modes(look: Look, mode: str, expected: str | None) -> None:
    found = look({"proc/self/status": f"Seccomp:\t{mode}\n"}).confinement
    assert expected == found.seccomp
    assert ("seccomp" in found.missing) == (expected is None)


def test_profile_where_apparmor_has_no_file_of_its_own(look: Look) -> None:
    label = "system_u:system_r:container_t:s0:c1,c2\0"
    found = look({"proc/self/attr/apparmor/current": None, "proc/self/attr/current": label}).confinement
    assert label.rstrip("\0") == found.lsm_profile


def test_no_profile_where_no_module_gives_any(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of a kernel without such modules is made up: a file in a folder never gives it."""
    read_text = Path.read_text

    def refusing(path: Path, *arguments: Any, **options: Any) -> str:
        if str(path).endswith("proc/self/attr/current"):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return read_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", refusing)
    found = look({"proc/self/attr/apparmor/current": None}).confinement
    assert ("none", False) == (found.lsm_profile, "lsm_profile" in found.missing)


def test_kernel_of_before_some_fields_gives_reasons(look: Look) -> None:
    found = look({"proc/self/status": "Uid:\t5\t5\t5\t5\nCapEff:\t0\n"}).confinement
    assert (found.root_user, found.capabilities) == (False, [])
    assert {"seccomp", "seccomp_filters", "no_new_privileges"} < set(found.missing)
    assert {"speculation_store_bypass", "speculation_indirect_branch"} < set(found.missing)
