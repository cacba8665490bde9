"""A server of ssh for the tests, on this machine, as this user, with keys and a configuration of its own.

Root has it in a network namespace of its own, at the other end of a cable.
"""

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

from ..ports import free_port
from .programs import SYSTEM, program

STARTS_WITHIN_S = 60

SERVER = """\
ListenAddress {address}
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
PasswordAuthentication yes
KbdInteractiveAuthentication no
SetEnv TMPDIR={folder}/tmp XDG_CACHE_HOME={folder}/cache
"""

CLIENT = """\
Host far unknown locked shut
  User {user}
  IdentitiesOnly yes
  GlobalKnownHostsFile /dev/null
Host far unknown locked
  HostName {address}
  Port {port}
Host shut
  HostName 127.0.0.1
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


NEAR_END, FAR_END = "198.18.77.1", "198.18.77.2"  # of a network that is for tests: RFC 2544
APART = """\
echo apart
read cable
ip link set lo up
ip address add $1/30 dev "$cable"
ip link set "$cable" up
shift
exec "$@"
"""


@dataclass(frozen=True)
class Server:
    """folder: of all its files. Hosts of the client's configuration: far, and some that are refused.

    cable: the end that is here of the link to it; None where it is in this network.
    """

    folder: Path
    cable: str | None

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
    port, is_root = free_port(), os.geteuid() == 0
    address = FAR_END if is_root else "127.0.0.1"
    kind, key, _ = (folder / "host.pub").read_text().split()
    (folder / "known").write_text(f"[{address}]:{port} {kind} {key}\n")
    (folder / "server").write_text(SERVER.format(address=address, port=port, folder=folder))
    user = pwd.getpwuid(os.geteuid()).pw_name
    (folder / "config").write_text(CLIENT.format(address=address, port=port, folder=folder, user=user))
    (folder / "tmp").mkdir()
    command = [daemon, "-D", "-e", "-f", str(folder / "server")]
    if is_root:
        Path("/run/sshd").mkdir(exist_ok=True)  # where no system has started one yet
        command = ["unshare", "--net", "sh", "-euc", APART, "sh", FAR_END, *command]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        try:
            cable = lay_cable(process) if is_root else None
            until_it_listens(address, port, folder / "log")
            yield Server(folder, cable)
        finally:
            process.terminate()


def lay_cable(process: subprocess.Popen[bytes]) -> str:
    """From here into its namespace, with which it goes. The end that is here."""
    assert process.stdout is not None
    process.stdout.readline()  # once it is in its namespace; before that, the far end would be left in this one
    near, far = (f"ssh{process.pid}{end}" for end in "ab")
    for words in (
        ["link", "add", near, "type", "veth", "peer", "name", far, "netns", str(process.pid)],
        ["address", "add", f"{NEAR_END}/30", "dev", near],
        ["link", "set", near, "up"],
    ):
        subprocess.run([program("ip", "apt-get install iproute2", SYSTEM), *words], check=True)
    assert process.stdin is not None
    process.stdin.write(f"{far}\n".encode())
    process.stdin.close()
    return near


def until_it_listens(address: str, port: int, log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection((address, port), STARTS_WITHIN_S).close()
        except OSError:  # it has not begun, or its cable is not up yet
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"sshd does not listen:\n{log.read_text()}")
