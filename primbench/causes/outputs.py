"""What shows in outputs that are not the same to the last bit where the same code computed them on the same inputs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from primbench.compare.outputs import Deviation, SeenOutput
from primbench.doctor.cause import Cause
from primbench.timing.digest import unlike_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RANK = 8
FEW = 8  # one process in so many may deviate, and one of any number
LOCAL = 4  # one part in so many differs at most: another order of summation shows nearly everywhere
SOME_CALLS = 8  # of a place: of two outcomes that are as likely, each of two places has one alone once in 32768 times
MANY_CALLS = 100  # that gave what was expected, beside the one that did not


def corrupted(seen: Sequence[SeenOutput]) -> Iterator[Deviation]:
    """Outputs that differ in few places, in one process or one place alone.

    Of operations that do not repeat themselves none is told: where two processes gave several outputs, or several
    processes another one each. Such as differ nearly everywhere were computed in another order.
    """
    alike: dict[bytes, list[SeenOutput]] = {}
    for each in seen:
        alike.setdefault(each.like, []).append(each)
    for group in alike.values():
        several = [each for each in group if len(each.output.calls) > 1]
        yield from _of_one_call(group, several[0]) if len(several) == 1 else () if several else _of_processes(group)


def _of_one_call(group: Sequence[SeenOutput], one: SeenOutput) -> Iterator[Deviation]:
    """A call that gave what no other one did, of its process or of any other."""
    usual = {each.output.digest for each in group if each is not one}
    odd = one.output.calls.keys() - usual
    if len(usual) == len(odd) == 1 and one.output.calls.keys() & usual:
        (expected,), (digest,) = usual, odd
        is_one = one.output.calls[digest] == 1 and one.output.calls[expected] >= MANY_CALLS
        if is_one and _is_local(digest, expected):
            yield _deviation([one], digest, expected, len(group) - 1, one.process)


def _of_processes(group: Sequence[SeenOutput]) -> Iterator[Deviation]:
    """Processes each of which gave one output alone."""
    ((expected, count),) = Counter(each.output.digest for each in group).most_common(1)
    most = max(1, len(group) // FEW)
    odd = _odd(group, expected, most)
    if _is_of_one_place([each for each in group if each.output.digest == expected], odd):
        yield _deviation(odd, odd[0].output.digest, expected, count, odd[0].process if len(odd) == 1 else None)
    elif count > 1 and len(odd) <= most:
        yield from _each_its_own(odd, expected, count)


def _odd(group: Sequence[SeenOutput], expected: str, most: int) -> list[SeenOutput]:
    """Those that differ in few places; none where more than so many differ elsewhere, in another order each time."""
    others = [each for each in group if each.output.digest != expected]
    odd = [each for each in others if _is_local(each.output.digest, expected)]
    return odd if len(others) - len(odd) <= most else []


def _each_its_own(odd: Sequence[SeenOutput], expected: str, others: int) -> Iterator[Deviation]:
    if len({each.output.digest for each in odd}) == len(odd):
        yield from (_deviation([each], each.output.digest, expected, others, each.process) for each in odd)


def _is_of_one_place(usual: Sequence[SeenOutput], odd: Sequence[SeenOutput]) -> bool:
    """Whether one place gives one output and all others another one, each in SOME_CALLS."""
    places = {each.place for each in odd}
    if len(places) != 1 or len({each.output.digest for each in odd}) != 1:
        return False
    return not places & {each.place for each in usual} and min(_calls(odd), _calls(usual)) >= SOME_CALLS


def _calls(seen: Sequence[SeenOutput]) -> int:
    return sum(sum(each.output.calls.values()) for each in seen)


def _is_local(digest: str, expected: str) -> bool:
    unlike = unlike_parts(expected, digest)
    return unlike is not None and LOCAL * unlike[0] <= unlike[1]


def _deviation(odd: Sequence[SeenOutput], digest: str, expected: str, others: int, process: int | None) -> Deviation:
    parts, of_parts = unlike_parts(expected, digest) or (0, 0)
    return Deviation(
        place=odd[0].place,
        process=process,
        calls=sum(each.output.calls[digest] for each in odd),
        of_calls=_calls(odd),
        parts=parts,
        of_parts=of_parts,
        others=others,
    )


CAUSES = (
    Cause("silent-corruption", severity="problem",
          effect="a CPU, a GPU or memory is wrong and does not tell so, or the operation has a rare race",
          in_outputs=corrupted),
)  # fmt: skip
