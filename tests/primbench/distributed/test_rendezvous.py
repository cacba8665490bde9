"""Meeting at a port: who knows the secret gets through at once, whatever strangers do there."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from primbench.distributed import rendezvous
from primbench.distributed.channel import Channel, listen
from primbench.distributed.rendezvous import Challenge, Hello, NotOurs, Welcome, join, meet
from primbench.errors import WorkerError

SECRET = b"secret"
FOR_EVER_S = 1e6


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with listen("127.0.0.1", 0) as listening:
        yield listening


def silent(stranger: socket.socket) -> None:
    """Waits for others to speak."""


def drips(stranger: socket.socket) -> None:
    stranger.sendall(b'{"rank":1')


def asks_for_a_page(stranger: socket.socket) -> None:
    stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")


def floods(stranger: socket.socket) -> None:
    stranger.sendall(b"x" * 10_000)


def guesses(stranger: socket.socket) -> None:
    stranger.sendall(msgspec.json.encode(Hello(1, 0, "", "00" * 32)) + b"\n")


@pytest.mark.parametrize("behaves", [silent, drips, asks_for_a_page, floods, guesses])
def test_strangers_hold_up_nobody(
    monkeypatch: pytest.MonkeyPatch, listener: socket.socket, behaves: Callable[[socket.socket], None]
) -> None:
    monkeypatch.setattr(rendezvous, "ANSWER_TIMEOUT_S", FOR_EVER_S)
    strangers = [socket.create_connection(listener.getsockname()) for _ in range(5)]
    for stranger in strangers:
        behaves(stranger)
    with ThreadPoolExecutor(3) as pool:
        meeting_all = pool.submit(meet, listener, SECRET, [1, 2], 7)
        followers = [pool.submit(join, listener.getsockname(), SECRET, rank, 7) for rank in (2, 1)]
        second, first = (each.result() for each in followers)
        channels = meeting_all.result()
    for channel, follower in zip(channels, (first, second), strict=True):
        follower.send("here")
        assert "here" == channel.receive(str)
        channel.close()
        follower.close()
    for stranger in strangers:
        stranger.close()


def test_of_too_many_strangers_the_oldest_goes(monkeypatch: pytest.MonkeyPatch, listener: socket.socket) -> None:
    monkeypatch.setattr(rendezvous, "ANSWER_TIMEOUT_S", FOR_EVER_S)
    monkeypatch.setattr(rendezvous, "MOST_GUESTS", 3)
    strangers = [socket.create_connection(listener.getsockname()) for _ in range(10)]
    with ThreadPoolExecutor(1) as pool:
        met = pool.submit(meet, listener, SECRET, [1], 0)
        join(listener.getsockname(), SECRET, 1, 0).close()
        met.result()[0].close()
    for stranger in strangers:
        stranger.close()


def test_who_is_silent_past_the_deadline_is_turned_away(
    monkeypatch: pytest.MonkeyPatch, listener: socket.socket
) -> None:
    monkeypatch.setattr(rendezvous, "ANSWER_TIMEOUT_S", 0.05)
    with socket.create_connection(listener.getsockname()) as stranger, ThreadPoolExecutor(1) as pool:
        met = pool.submit(meet, listener, SECRET, [1], 0, 0.3)
        channel = Channel(stranger)
        channel.receive(Challenge)
        with pytest.raises(EOFError):
            channel.receive(Welcome)
        with pytest.raises(WorkerError, match=r"rank 1 did not come within 0\.3 s"):
            met.result()


def test_a_follower_that_was_not_heard_tries_again(monkeypatch: pytest.MonkeyPatch, listener: socket.socket) -> None:
    with ThreadPoolExecutor(2) as pool:
        follower = pool.submit(join, listener.getsockname(), SECRET, 1, 0)
        turned_away, _ = listener.accept()
        turned_away.close()
        met = pool.submit(meet, listener, SECRET, [1], 0)
        follower.result().close()
        met.result()[0].close()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n", b"220 mail\n", b'{"drawn":1}\n'])
def test_another_program_at_the_port_is_told_from_a_leader(listener: socket.socket, answer: bytes) -> None:
    with ThreadPoolExecutor(1) as pool:
        follower = pool.submit(join, listener.getsockname(), SECRET, 1, 0)
        connection, _ = listener.accept()
        connection.sendall(answer)
        with pytest.raises(NotOurs):
            follower.result()
        connection.close()


def test_a_leader_that_does_not_know_the_secret_is_none(listener: socket.socket) -> None:
    """Nor is one that sends a follower's own proof back to it."""
    for echoed in (False, True):
        with ThreadPoolExecutor(1) as pool:
            follower = pool.submit(join, listener.getsockname(), SECRET, 1, 0)
            connection, _ = listener.accept()
            channel = Channel(connection)
            channel.send(Challenge("0"))
            hello = channel.receive(Hello)
            channel.send(Welcome(hello.proof if echoed else "00" * 32))
            with pytest.raises(NotOurs):
                follower.result()
            channel.close()


def test_a_proof_is_of_one_connection_rank_and_number(monkeypatch: pytest.MonkeyPatch, listener: socket.socket) -> None:
    heard: list[Hello] = []
    with ThreadPoolExecutor(2) as pool:
        follower = pool.submit(join, listener.getsockname(), SECRET, 1, 0)
        connection, _ = listener.accept()
        channel = Channel(connection)
        channel.send(Challenge("0"))
        heard.append(channel.receive(Hello))
        channel.send(Welcome(None))
        with pytest.raises(NotOurs):
            follower.result()
        channel.close()
        met = pool.submit(meet, listener, SECRET, [1], 0)
        for said in (heard[0], msgspec.structs.replace(heard[0], rank=2)):
            with socket.create_connection(listener.getsockname()) as replaying:
                again = Channel(replaying)
                again.receive(Challenge)
                again.send(said)
                assert again.receive(Welcome).proof is None
        join(listener.getsockname(), SECRET, 1, 0).close()
        met.result()[0].close()
