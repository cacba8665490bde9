"""What is written is what was named, whole, and nothing else: with links, devices, pipes and mounts in its place."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from primbench.errors import OutputError
from primbench.system import outputs

FULL = os.makedev(1, 7)  # devices.txt of Linux: /dev/full


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A device of the test's own, which can be replaced without harm."""
    path = tmp_path / "full"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, FULL)
        with open(path, "wb", buffering=0) as file:
            file.write(b".")
    except PermissionError as error:
        pytest.skip(f"needs root's leave to make a device: {error}")
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    return path


def refusal(path: Path | str) -> str:
    with pytest.raises(OutputError) as caught:
        outputs.write(path, b"new")
    return str(caught.value)


def test_a_file_is_replaced_and_keeps_who_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with path.open("rb") as before:
        outputs.write(path, b"new")
        assert b"old" == before.read()
    assert (b"new", 0o640) == (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    assert [path] == [*tmp_path.iterdir()]


def test_in_a_shared_folder_a_file_of_another_user_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    """Which anybody may write to, but not replace."""
    if os.geteuid():
        pytest.skip("needs root, to make a file and then be another user")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    path = shared / "file"
    path.write_bytes(b"old")
    path.chmod(0o666)
    assert outputs.unwritable(path) is None
    code = "import os; from primbench.system import outputs; os.setuid(65534); print(outputs.unwritable('file'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=shared, capture_output=True, text=True, check=True)
    assert "is another user's, and this folder lets nobody else replace it: name another file\n" == done.stdout
    shared.chmod(0o777)
    done = subprocess.run([sys.executable, "-c", code], cwd=shared, capture_output=True, text=True, check=True)
    assert "None\n" == done.stdout


def test_a_new_file_is_as_any_program_makes_it(tmp_path: Path) -> None:
    outputs.write(tmp_path / "file", b"new")
    (tmp_path / "other").touch()
    assert (tmp_path / "other").stat().st_mode == (tmp_path / "file").stat().st_mode


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_bytes(b"victim's")
    link.symlink_to(victim)
    words = f"{link}: is a link to {victim}, and links are not followed: name the file itself"
    assert words == refusal(link)
    with pytest.raises(OutputError, match="links are not followed"), outputs.growing(link):
        pass
    with pytest.raises(OutputError, match="File exists"):
        outputs.write_new(link, b"new")
    with pytest.raises(OSError, match="symbolic links"):
        outputs.note(link, b"new", anew=True)
    assert b"victim's" == victim.read_bytes()
    assert [link, victim] == sorted(tmp_path.iterdir())


def test_another_name_of_a_file_keeps_what_it_held(tmp_path: Path) -> None:
    victim, other = tmp_path / "victim", tmp_path / "other"
    victim.write_bytes(b"victim's")
    other.hardlink_to(victim)
    outputs.write(other, b"new")
    assert (b"victim's", b"new") == (victim.read_bytes(), other.read_bytes())


def test_a_device_is_written_to_and_stays_one(full: Path) -> None:
    assert f"{full}: No space left on device" == refusal(full)
    with pytest.raises(OutputError), outputs.growing(full) as file:
        file.write(b"new")
    assert FULL == full.stat().st_rdev


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reads = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reads.start()
    outputs.write(pipe, b"new")
    reads.join()
    assert [b"new"] == found
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/stderr", "/dev/fd/{0}", "/proc/self/fd/{0}"])
def test_streams_of_this_process_are_written_to_where_they_are(name: str, tmp_path: Path) -> None:
    code = "import sys; from primbench.system import outputs; outputs.write(sys.argv[1], b'new')"
    with open(tmp_path / "file", "w+b") as file:
        file.write(b"before ")
        file.flush()
        command = [sys.executable, "-c", code, name.format(file.fileno())]
        subprocess.run(command, stdout=file, stderr=file, pass_fds=[file.fileno()], check=True)
    assert b"before new" == (tmp_path / "file").read_bytes()
    assert "no such open stream" in refusal("/dev/fd/999")


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        for write, name in ((outputs.write, path), (outputs.write_new, tmp_path / "new")):
            with pytest.raises(OutputError, match="File too large"):
                write(name, bytes(1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert b"old" == path.read_bytes()
    assert [path] == [*tmp_path.iterdir()]


def test_what_grows_is_there_from_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with outputs.growing(path) as file:
        assert b"" == path.read_bytes()
        file.write(b"new")
        file.flush()
        assert b"new" == path.read_bytes()
    assert [path] == [*tmp_path.iterdir()]


def test_a_file_that_is_a_mount_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"longer than new")
    code = (
        "import subprocess, sys; from primbench.system import outputs\n"
        "subprocess.run(['mount', '--bind', *sys.argv[1:]], check=True)\n"
        "outputs.write(sys.argv[2], b'new'); outputs.write(sys.argv[2], b'newer')"
    )
    (tmp_path / "point").touch()
    command = ["unshare", "--map-root-user", "--mount", sys.executable, "-c", code]
    done = subprocess.run(
        [*command, tmp_path / "source", tmp_path / "point"], capture_output=True, text=True, check=False
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"needs a mount of its own: {done.stderr}")
    assert ("", b"newer") == (done.stderr, (tmp_path / "source").read_bytes())
