"""A server of ssh for the tests, on this machine, as this user, with keys and a configuration of its own."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from .programs import SYSTEM, program

STARTS_WITHIN_S = 10

SERVER = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
SetEnv TMPDIR={folder}/tmp XDG_CACHE_HOME={folder}/cache
"""

CLIENT = """\
Host far unknown locked shut
  HostName 127.0.0.1
  User {user}
  IdentitiesOnly yes
  GlobalKnownHostsFile /dev/null
Host far unknown locked
  Port {port}
Host shut
  Port 1
Host unknown
  UserKnownHostsFile /dev/null
Host far locked shut
  UserKnownHostsFile {folder}/known
Host far unknown shut
  IdentityFile {folder}/user
Host locked
  IdentityFile {folder}/host
"""


@dataclass(frozen=True)
class Server:
    """folder: of all its files. Hosts of the client's configuration: far, and some that are refused."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "config"

    @property
    def temporary(self) -> Path:
        """Where programs that are started by it put temporary files."""
        return self.folder / "tmp"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    daemon = program("sshd", "apt-get install openssh-server", SYSTEM)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    port = free_port()
    kind, key, _ = (folder / "host.pub").read_text().split()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
    (folder / "server").write_text(SERVER.format(port=port, folder=folder))
    (folder / "config").write_text(CLIENT.format(port=port, folder=folder, user=pwd.getpwuid(os.geteuid()).pw_name))
    (folder / "tmp").mkdir()
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where no system has started one yet
    with (folder / "log").open("w") as log, subprocess.Popen(
        [daemon, "-D", "-e", "-f", folder / "server"], stdin=subprocess.DEVNULL, stderr=log
    ) as process:  # fmt: skip
        try:
            until_it_listens(port, folder / "log")
            yield Server(folder)
        finally:
            process.terminate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def until_it_listens(port: int, log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"sshd does not listen:\n{log.read_text()}")
