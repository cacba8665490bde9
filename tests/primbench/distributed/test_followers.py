"""The leader and its followers, in threads of this process; their ranks are real processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from primbench.distributed import followers, rendezvous
from primbench.distributed.channel import Channel, listen
from primbench.distributed.child import readable
from primbench.distributed.followers import FollowerCommand, Leader, follow
from primbench.distributed.world import World
from primbench.errors import InvalidRequest, WorkerError

from ...ports import free_port
from ...processes import children

NOBODY_S = 0.3
COME_S = 20.0


def world(size: int = 2) -> World:
    return World("torchrun", 0, size, 0, "127.0.0.1", free_port(), b"secret")


@contextmanager
def following(led: World) -> Iterator[list[Future[int]]]:
    """A follower for every further rank."""
    with ThreadPoolExecutor(led.size) as pool:
        yield [pool.submit(follow, replace(led, rank=rank), verbose=False) for rank in range(1, led.size)]


def ranks_of_this_process(count: int, but: Collection[int] = ()) -> set[int]:
    """Process ids, once there are so many: a follower connects first, and starts a rank then."""
    deadline = time.monotonic() + COME_S
    while True:
        found = {child.pid for child in children("primbench.workers.rank")} - set(but)
        if len(found) == count:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def test_followers_exit_with_the_status_of_the_leader() -> None:
    led = world(3)
    with following(led) as exits, pytest.raises(SystemExit), Leader(led):
        sys.exit(3)
    assert [3, 3] == [each.result() for each in exits]


def test_a_leader_that_vanishes_is_a_failure() -> None:
    led = world()
    with following(led) as (ended,):
        leader = Leader(led)
        for follower in leader._followers:
            follower.close()
        assert 1 == ended.result()
        leader.__exit__(None, None, None)


def test_ranks_are_started_told_apart_and_ended_with_the_worker() -> None:
    led = world(3)
    with following(led), Leader(led) as leader:
        ranks = leader.start()
        first = ranks_of_this_process(2)
        assert 2 == len(ranks.sockets)
        assert ranks.fate() is None
        for peer in ranks.sockets:
            peer.close()
        ranks.end()
        again = leader.start()
        ranks_of_this_process(2, but=first)
        assert again.fate() is None
        for peer in again.sockets:
            peer.close()
    ranks_of_this_process(0)


def test_the_leader_hears_what_a_rank_died_of_once_and_not_of_the_next_one() -> None:
    led = world()
    with following(led), Leader(led) as leader:
        ranks = leader.start()
        (rank,) = ranks_of_this_process(1)
        os.kill(rank, signal.SIGSEGV)
        readable(ranks.watched, COME_S)
        assert "rank 1 died of signal SIGSEGV" == ranks.fate()
        ranks.end()
        again = leader.start()
        assert again.fate() is None
        for peer in (*ranks.sockets, *again.sockets):
            peer.close()


def test_a_stranger_is_turned_away_and_a_follower_that_comes_later_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "ANSWER_TIMEOUT_S", 1.0)
    led = world()
    with ThreadPoolExecutor(3) as pool:
        leading = pool.submit(Leader, led)
        with pytest.raises(WorkerError, match="another job's: set PRIMBENCH_PORT"):
            follow(replace(led, rank=1, secret=b"another"), verbose=False)
        with socket.create_connection((led.address, led.port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            follower = pool.submit(follow, replace(led, rank=1), verbose=False)
            with leading.result():
                pass
        assert 0 == follower.result()


def test_who_does_not_come_or_is_not_there_is_named() -> None:
    led = replace(world(), come_s=NOBODY_S)
    with pytest.raises(WorkerError, match=r"rank 1 did not come within 0\.3 s"):
        Leader(led)
    with pytest.raises(WorkerError, match=f"rank 0 is not at 127.0.0.1 port {led.port}: Connection refused"):
        follow(replace(led, rank=1), verbose=False)


def test_a_follower_that_is_gone_is_named_before_new_ranks_are_waited_for() -> None:
    led = world()
    with ThreadPoolExecutor(1) as pool:
        leading = pool.submit(Leader, led)
        follower = followers._connect(replace(led, rank=1), 0)
        with leading.result() as leader:
            follower.close()
            readable([leader._followers[0].connection.fileno()], COME_S)
            with contextlib.suppress(EOFError):  # the first word to a closed connection is answered by its reset
                leader._followers[0].send(0)
            with pytest.raises(WorkerError, match="rank 1 and its primbench are gone: launch all ranks again"):
                leader.start()


def test_a_follower_of_another_launch_with_the_same_secret_is_no_rank_of_this_one() -> None:
    led = world()
    with ThreadPoolExecutor(2) as pool:
        leading = pool.submit(Leader, led)
        follower = followers._connect(replace(led, rank=1), 0)
        with leading.result() as leader:
            starting = pool.submit(leader.start)
            for number, rank in ((0, 1), (1, 2)):
                another = followers._connect(replace(led, rank=rank), number)
                with pytest.raises(EOFError):
                    another.receive(FollowerCommand)
                another.close()
            channel = followers._connect(replace(led, rank=1), 1)
            ranks = starting.result()
            Channel(ranks.sockets[0]).send("to the rank")
            assert "to the rank" == channel.receive(str)
            channel.close()
            ranks.end()
        follower.close()


def test_only_a_loopback_that_is_named_is_listened_at_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with listen("localhost", 0) as alone:
        assert "127.0.0.1" == alone.getsockname()[0]
    own_name = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.1.1", 0))]  # as Debian's /etc/hosts has it
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: own_name)
    with listen("node7", 0) as everywhere:
        assert everywhere.getsockname()[0] in ("0.0.0.0", "::")


def test_a_port_that_is_taken_is_a_clear_error() -> None:
    led = world()
    with (
        socket.create_server((led.address, led.port)),
        pytest.raises(InvalidRequest, match=f"127.0.0.1 port {led.port}: Address already in use"),
    ):
        Leader(led)
