from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from primbench.distributed.channel import Channel, listen
from primbench.distributed.group import ALONE, Group, Refused
from primbench.errors import BackendUnavailable, UnsupportedCase

OnEveryRank = Callable[..., list[Any]]


def test_rank_0_decides_from_the_values_of_all_in_their_order(on_every_rank: OnEveryRank) -> None:
    assert [[0, 1, 2]] * 3 == on_every_rank(3, lambda group: group.agree(group.rank, list))
    assert [0, 0, 0] == on_every_rank(3, lambda group: group.agree(group.rank))
    assert 7 == ALONE.agree(7)
    assert 1 == ALONE.agree(7, len)


def test_numbers_arrive_as_they_were_sent(on_every_rank: OnEveryRank) -> None:
    numbers = [0.1, 1e-300, 2**53 + 1, -1, 1.7976931348623157e308]
    assert [numbers, numbers] == on_every_rank(2, lambda group: group.agree(numbers))


def test_what_one_rank_cannot_do_all_learn_at_the_next_agreement(on_every_rank: OnEveryRank) -> None:
    def code(group: Group) -> None:
        with group.refusing_together():
            if group.rank == 2:
                raise UnsupportedCase("no room")
            group.agree()

    for outcome in on_every_rank(3, code):
        assert isinstance(outcome, Refused)
        assert "rank 2: no room" == str(outcome)


def test_what_all_ranks_cannot_do_is_said_once_and_they_agree_again_afterwards(on_every_rank: OnEveryRank) -> None:
    def code(group: Group) -> Any:
        with pytest.raises(Refused, match=r"^no such GPU$"), group.refusing_together():
            raise BackendUnavailable("no such GPU")
        return group.agree(group.rank, sum)

    assert [3, 3, 3] == on_every_rank(3, code)


def test_threads_of_a_process_are_on_one_host(on_every_rank: OnEveryRank) -> None:
    assert [True, True] == on_every_rank(2, Group.on_one_host)


def test_every_way_of_being_gone_is_an_end() -> None:
    ours, theirs = (Channel(end) for end in socket.socketpair())
    ours.send("never read")
    theirs.close()
    with pytest.raises(EOFError, match="the other end is gone: Connection reset by peer"):
        ours.receive(int)
    with pytest.raises(EOFError, match="the other end is gone: Broken pipe"):
        ours.send(1)
    ours.close()


def test_a_closed_connection_is_an_end_and_other_words_are_refused() -> None:
    ours, theirs = (Channel(end) for end in socket.socketpair())
    theirs.send("a word")
    theirs.send(["two", 2])
    theirs.close()
    with pytest.raises(msgspec.ValidationError):
        ours.receive(int)
    assert ours.has_line
    assert ["two", 2] == ours.receive(list[Any])
    with pytest.raises(EOFError, match="closed"):
        ours.receive(int)
    ours.close()


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.1.1", "::1"])
def test_rank_0_listens_where_the_others_came_to_alone(address: str) -> None:
    """Who listens for everybody knows by what address each of them came."""
    if ":" in address and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with listen("0.0.0.0", 0) as everywhere:
        with socket.create_connection((address, everywhere.getsockname()[1])):
            channel = Channel(everywhere.accept()[0])
        with Group(0, 2, [channel]).listen() as found:
            assert address == found.getsockname()[0]
        channel.close()


def test_rank_0_listens_everywhere_where_others_came_to_several_addresses() -> None:
    with listen("0.0.0.0", 0) as everywhere:
        channels = []
        for address in ("127.0.0.1", "127.0.0.2"):
            with socket.create_connection((address, everywhere.getsockname()[1])):
                channels.append(Channel(everywhere.accept()[0]))
        with Group(0, 3, channels).listen() as found:
            assert found.getsockname()[0] in ("0.0.0.0", "::")
        for channel in channels:
            channel.close()


def test_ranks_of_one_process_tree_are_listened_for_on_this_host_alone() -> None:
    ours, theirs = socket.socketpair()
    with theirs, Group(0, 2, [Channel(ours)]).listen() as found:
        assert "127.0.0.1" == found.getsockname()[0]
    ours.close()
