"""A network between the ranks of one host: real namespaces, virtual Ethernet and VXLAN, and what goes through them."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from primbench.distributed.networks import address, enter
from primbench.fleet.links import own_address
from primbench.results import file as results_file

if TYPE_CHECKING:
    from click.testing import Result

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network namespaces"),
    pytest.mark.skipif(shutil.which("bridge") is None, reason="bridge is missing: apt-get install iproute2"),
]

SENT_BYTES = 1_000_000
RANK = f"""
import json, os, socket, sys
from pathlib import Path
from primbench.distributed import networks
from primbench.distributed.channel import Channel
from primbench.distributed.group import Group

descriptor, rank, network = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
channel = Channel(socket.socket(fileno=descriptor))
group = Group(rank, 2, [channel], networks.address(network, 0), joined=True)
networks.join(group, network)
listener = group.listen() if rank == 0 else None
port = group.agree(listener.getsockname()[1] if listener else None)
if listener:
    connection, _ = listener.accept()
    with connection.makefile("rb") as stream:
        assert {SENT_BYTES} == len(stream.read())
else:
    with socket.create_connection((group.address, port)) as connection:
        connection.sendall(bytes({SENT_BYTES}))
group.agree()
received = {{line.split(":")[0].strip(): int(line.split()[1])
            for line in Path("/proc/self/net/dev").read_text().splitlines()[2:]}}
ways = [os.environ["GLOO_SOCKET_IFNAME"], os.environ["NCCL_SOCKET_IFNAME"]]
print(json.dumps([os.readlink("/proc/self/ns/net"), ways, os.environ["NCCL_HOSTID"], received]))
"""
WITHOUT = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]


def two_ranks(network: str, *prefix: str) -> list[subprocess.CompletedProcess[str]]:
    ends = socket.socketpair()
    started = []
    for rank, end in enumerate(ends):
        descriptor = end.fileno()
        words = [*prefix, sys.executable, "-P", "-c", RANK, str(descriptor), str(rank), network]
        started.append(
            subprocess.Popen(words, pass_fds=[descriptor], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        )
        end.close()
    outputs = [each.communicate(timeout=60) for each in started]
    return [
        subprocess.CompletedProcess(each.args, each.returncode, *said)
        for each, said in zip(started, outputs, strict=True)
    ]


@pytest.mark.parametrize(("network", "through"), [("private", "eth0"), ("overlay", "vxlan0")])
def test_each_rank_has_a_namespace_and_what_they_say_goes_through_it(network: str, through: str) -> None:
    done = two_ranks(network)
    assert [0, 0] == [each.returncode for each in done], done
    (one, ways, machine, received), (other, other_ways, other_machine, _) = (json.loads(each.stdout) for each in done)
    assert 3 == len({one, other, os.readlink("/proc/self/ns/net")})
    assert {through} == {*ways, *other_ways}
    assert machine != other_machine, "NCCL would take ranks of one machine over its links"
    assert received[through] > SENT_BYTES
    assert received["lo"] < SENT_BYTES
    assert not re.search(r"^ *(ranks|rank\d+|vxlan0):", Path("/proc/self/net/dev").read_text(), re.MULTILINE)


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is missing: apt-get install util-linux")
def test_without_the_right_to_one_all_ranks_say_so() -> None:
    for each in two_ranks("private", *WITHOUT):
        assert "a network of its own cannot be had: Operation not permitted: be root" in each.stderr


def test_addresses_differ_for_as_many_ranks_as_there_may_be() -> None:
    assert 2000 == len({address(network, rank) for network in ("private", "overlay") for rank in range(1000)})


def test_a_study_sets_networks_beside_each_other(invoke: Callable[..., Result], tmp_path: Path) -> None:
    arms = [word for each in ("", ":network=private", ":network=overlay") for word in ("--arm", f"host{each}")]
    sizes, path = tmp_path / "sizes.toml", tmp_path / "study.jsonl"
    sizes.write_text("allreduce = [{ bytes = 1024, ranks = 2 }]\nlaunch = [{ call = 'getppid' }]\n")
    quick = ("--min-time", "5ms", "--max-time", "10ms", "--pairs", 1, "--fail-on", "never", "-o", path)
    done = invoke("study", sizes, *arms, "--backend", "numpy", *quick)
    assert 0 == done.exit_code, done.output
    found = results_file.read(path)
    assert {"ok"} == {each.status for each in found.records}
    spaces = [(each.environment.confinement.namespaces or {})["net"] for each in found.workers]
    here = os.readlink("/proc/self/ns/net").partition("[")[2].rstrip("]")
    assert [2, 4] == [sum((here in space) == is_here for space in spaces) for is_here in (True, False)]
    told = [name for each in found.workers for name in each.environment.software.variables or {}]
    told += [name for each in found.workers for name in each.environment.software.other_variables or []]
    assert not [name for name in told if name.endswith(("SOCKET_IFNAME", "HOSTID"))], "an arm's network is no stack"


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="needs IPv6, which root has to switch on")
def test_a_host_without_ipv4_has_an_address_too() -> None:
    """Its interface is the loopback's, as there is no other."""

    def without_ipv4() -> str:
        enter()
        for words in ("link set lo up", "address add 2001:db8:7::2/128 dev lo", "route add default dev lo"):
            subprocess.run(["ip", "-6", *words.split()], check=True)
        return own_address({"MASTER_ADDR": "::1", "SLURM_LAUNCH_NODE_IPADDR": "no..host"})

    with ThreadPoolExecutor(1) as thread:
        assert "2001:db8:7::2" == thread.submit(without_ipv4).result()
