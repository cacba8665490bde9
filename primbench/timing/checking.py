"""The check of a case's output: by the reference, or by an output that is known to agree with it."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from primbench.errors import VerificationError
from primbench.measurement.outputs import Output
from primbench.problem import Exact, description_of
from primbench.timing.digest import digest_of
from primbench.timing.references import NOTHING_KNOWN, KnownOfCase
from primbench.timing.verify import called_again, error_of, on_host, overwrite, rewritten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from primbench.backends import Backend
    from primbench.problem import Array, Problem, Reference, Step

LONG_S = 0.05  # a call that takes longer is not repeated for nothing but to see whether it gives the same
FIRST_CALLS, FIRST_S = 8, 0.01  # that are looked at in the first process of an arm, of short calls
REPEATS_S = 0.2
LEFT, LEFT_BYTES = 4, 2**26  # copies that are left in free memory, of an output of at most so many bytes
MOST_REPEATS = 1000  # after which a call that gives another output once in 200 has done so again
FEW_REPEATS = 20  # where all give the same


class OutputCheck:
    """Of a step: whether what it gives is right, and what its calls gave to the last bit.

    An output is right that is to the last bit one which an earlier process of the arm compared with the reference: its
    digest is compared, where the output lies. Any other one is compared with the reference itself, and so is each of an
    operation that gives others each time, so that nothing passes which has not been compared. Calls are repeated then,
    which tells an operation that repeats itself from one that does not.
    """

    def __init__(
        self,
        backend: Backend,
        problem: Problem,
        step: Step,
        reference: Callable[[], Reference | Exact],
        *,
        known: KnownOfCase = NOTHING_KNOWN,
        seed: int = 0,
    ) -> None:
        """reference: what makes it, once at most, where it is not known. seed: of the inputs."""
        self._backend, self._problem, self._step = backend, problem, step
        self._make_reference: Callable[[], Reference | Exact] = lambda: known.reference_of(problem, seed, reference)
        self._reference: Reference | Exact | None = None
        self._known = {each.digest: each for each in known.outputs}
        self._calls: Counter[str] = Counter()
        self._others: list[Array] = []
        self._digest = ""
        self._error: float | None = None
        self._compared_fraction: float | None = None

    def begin(self, output: Any = None) -> Callable[[], float]:
        """Make calls, and return what compares the output, which may go on beside further calls.

        output: of an earlier call, which the next one is to write again; None where there was none.

        Raises VerificationError, as what it returns does, where the output is wrong.
        """
        started = time.perf_counter()
        calls = 2 if output is None else 1
        output = rewritten(self._backend, self._step) if calls > 1 else called_again(self._backend, self._step, output)
        call_s = (time.perf_counter() - started) / calls
        self._digest = self._seen(output)
        if self._digest in self._known:
            known = self._known[self._digest]
            self._error, self._compared_fraction = known.error, known.compared_fraction
            return self._checked
        host = on_host(self._backend, output)
        if not self._backend.device.is_gpu or host is output:  # the next call writes there
            self._compare(host)
        self._repeat(output, call_s)
        return self._checked if self._error is not None else lambda: self._compare(host)

    def error_of_late(self, output: Any) -> float:
        """The error of a further call: that of the first one where it gave the same."""
        if self._seen(output) == self._digest:
            return self._checked()
        return error_of(on_host(self._backend, output), self._problem, self._of_problem())

    def output(self) -> Output:
        """What calls gave so far."""
        return Output(digest=self._digest, calls=dict(self._calls), compared_fraction=self._compared_fraction)

    def _checked(self) -> float:
        assert self._error is not None
        return self._error

    def _compare(self, host: Array) -> float:
        found = [error_of(each, self._problem, self._of_problem()) for each in (host, *self._others)]
        self._others.clear()
        self._error, self._compared_fraction = max(found), _compared(host, self._of_problem())
        return self._error

    def _of_problem(self) -> Reference | Exact:
        self._reference = found = self._reference or self._make_reference()
        return found

    def _seen(self, output: Any) -> str:
        digest = digest_of(self._backend, output)
        self._calls[digest] += 1
        return digest

    def _repeat(self, output: Any, call_s: float) -> None:
        """Call again until it is known whether calls of this process give the same, or one of them alone did not.

        Of an operation of which earlier processes gave two outputs that is known.
        """
        is_for_nothing = not self._known and call_s > LONG_S
        if description_of(self._step).is_process or is_for_nothing or len(self._known) > 1:
            return
        started, spent_s = time.perf_counter(), 0.0
        while not self._is_told(spent_s):
            output = called_again(self._backend, self._step, output)
            self._compare_another(output)
            spent_s = time.perf_counter() - started

    def _compare_another(self, output: Any) -> None:
        """With the reference where no call gave the same: now, unless what it gave is compared beside further calls."""
        known = {*self._known, *self._calls}
        if self._seen(output) in known:
            return
        host = on_host(self._backend, output)
        if self._error is None:
            self._others.append(host)
        else:
            self._error = max(self._error, error_of(host, self._problem, self._of_problem()))

    def _is_told(self, spent_s: float) -> bool:
        count = self._calls.total()
        if spent_s > REPEATS_S:
            return True
        if len(self._calls) == 1:
            return count > FEW_REPEATS if self._known else count >= FIRST_CALLS or spent_s > FIRST_S
        return min(self._calls.values()) > 1 or len(self._calls) > 2 or count > MOST_REPEATS


def _compared(host: Array, reference: Reference | Exact) -> float:
    """Of the elements of an output, the share that a reference says something of."""
    return 1.0 if isinstance(reference, Exact) else min(1.0, reference.expected.size / host.size)


def refuse_kept(backend: Backend, call: Callable[[], Any], inputs: Iterable[Any]) -> None:
    """Raises VerificationError where calls give what they gave before though their inputs are NaN by now.

    Such an output was kept, is known by heart, or was found in memory. A call that raises has looked at its inputs.
    What these were is put back.
    """
    kept = [(each, _copied(each)) for each in map(_detached, inputs) if _is_of_numbers(each)]
    if not kept:
        return
    before = digest_of(backend, call())
    try:
        for each, _ in kept:
            overwrite(backend, each)
        after = digest_of(backend, call())
    except Exception:  # whatever a kernel makes of NaN
        return
    finally:
        for each, copy in kept:
            each[...] = copy
    if after == before:
        raise VerificationError("a call gives the same output once its inputs are NaN: it was kept, not computed")


def leave_behind(output: Any) -> None:
    """Leave what an output holds in free memory, which a call that asks for as much is given."""
    if 0 < getattr(output, "nbytes", 0) <= LEFT_BYTES and (hasattr(output, "clone") or hasattr(output, "copy")):
        _ = [_copied(output) for _ in range(LEFT)]


def _is_of_numbers(array: Any) -> bool:
    """Whether it can be NaN, and be written to."""
    flags = getattr(array, "flags", None)
    return "float" in str(getattr(array, "dtype", "")) and (flags is None or getattr(flags, "writeable", True))


def _detached(array: Any) -> Any:
    """Torch's, without what records for gradients."""
    return array.detach() if hasattr(array, "detach") else array


def _copied(array: Any) -> Any:
    return array.clone() if hasattr(array, "clone") else array.copy()
