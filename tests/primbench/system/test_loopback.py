"""What is read of the interface by which ranks of one machine reach each other, in a network namespace made for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from primbench.system import loopback

READ = """import json; from pathlib import Path; from primbench.system.loopback import loopback
print(json.dumps(loopback(Path("/"))))"""
PACKET = """import json; from pathlib import Path; from primbench.environment.costs import packet_s
try: print(packet_s(Path("/")))
except OSError as error: print(json.dumps(str(error)))"""
# Of another kind than the loopback's, on an interface that is none: it must not be taken for lo's.
FAR = "ip link add far type veth peer name near && tc qdisc add dev far root bfifo"


def seen(setting: str, read: str = READ, needs: Sequence[str] = ()) -> Any:
    """What ``read`` prints of the loopback of a fresh namespace after a shell ran ``setting`` in it."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    apart = ["unshare", *as_root, "--net", "sh", "-euc"]
    missing = [name for name in ("unshare", "ip", "tc", *needs) if shutil.which(name) is None]
    if missing or subprocess.run([*apart, FAR], capture_output=True, check=False).returncode:
        pytest.skip(
            f"missing: {', '.join(missing) or 'the right to make a network namespace'} (util-linux, iproute2, iptables)"
        )
    reading = [sys.executable, "-P", "-c", read]
    done = subprocess.run([*apart, f'{FAR}; {setting}; exec "$@"', "sh", *reading], capture_output=True, check=True)
    return json.loads(done.stdout)


def test_packets_that_queue_on_the_loopback_are_seen_and_those_on_other_interfaces_are_not() -> None:
    plain = seen("ip link set lo up")
    assert ("65536", "noqueue") == (plain["mtu"], plain["queue"])
    # netem, which delays packets, is listed in the same way; few kernels of tests have it, and all have this one.
    slow = seen("ip link set lo mtu 1280 up; tc qdisc add dev lo root pfifo limit 7")
    assert ("1280", "pfifo") == (slow["mtu"], slow["queue"])


def test_settings_of_tcp_are_those_of_the_namespace() -> None:
    plain, small = seen("true"), seen("echo 4096 8192 16384 > /proc/sys/net/ipv4/tcp_rmem")
    assert {"tcp_rmem": "4096 8192 16384"} == {key: small[key] for key in small if small[key] != plain[key]}


def test_what_the_kernel_refuses_to_tell_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a sandbox whose kernel has no traffic control."""
    monkeypatch.setattr(loopback, "_GETQDISC", 255)  # no kernel has a message of this number
    with pytest.raises(OSError, match=r"^\[Errno \d+\] RTM_GETQDISC: "):
        loopback.loopback(Path("/"))


def test_what_a_packet_takes_is_of_one_that_the_firewall_looks_at() -> None:
    assert seen("ip link set lo up", PACKET) > 0
    dropping = "ip link set lo up; iptables -A INPUT -i lo -j DROP"
    assert "timed out" == seen(dropping, PACKET, ["iptables"])


def test_where_no_packet_arrives_there_is_no_time() -> None:
    assert "[Errno 101] Network is unreachable" == seen("true", PACKET)
