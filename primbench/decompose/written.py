"""A captured step: its calls of operators, the cases that these are, and the text of the suite, to be edited."""

from __future__ import annotations

import contextlib
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from primbench.decompose.as_cases import cases
from primbench.decompose.reuse import Use, distances, places_of, reuse_bytes
from primbench.problem import fields_of
from primbench.problem.operators import Call, NotThere, OperatorCase, Phase, Settings
from primbench.spec.captured import PARTS, WHOLE, Captured, NotCalledAgain, StepPlace
from primbench.system import outputs
from primbench.units import format_percent

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from primbench.decompose.laps import Lap
    from primbench.decompose.profiled import ProfiledSteps
    from primbench.problem import Problem


@dataclass
class CapturedStep:
    """A captured step; ``write()`` makes a suite of it."""

    of: str = "a step"
    """Whose step it is and where it begins and ends, in words."""
    calls: list[Call] = field(default_factory=list)
    """Its calls, in their order."""
    settings: Settings = field(default_factory=Settings)
    torch: str = ""
    """Version of torch."""
    threads: int | None = None
    """Threads of torch's pool, as many as compute an operator on the CPU; None is not known."""
    laps: list[Lap] = field(default_factory=list)
    """Steps like it that were not captured, as they ran."""
    fault_s: float | None = None
    """What the first touch of a page costs; None is not known, or of a GPU's step."""
    place: StepPlace = field(default_factory=StepPlace)
    """Where it ran."""
    profiled: ProfiledSteps | None = None
    """What further steps under torch's profiler told; None where there were none."""
    module_calls: Counter[str] = field(default_factory=Counter)
    """Calls of outermost modules, by their kind, in the step."""
    compiled: int = 0
    """How many graphs of operators torch had compiled, which under capture run operator by operator."""
    cuda_graphs: int = 0
    """How many CUDA graphs it replayed."""
    helpers: int = 0
    """How many threads it has started to compute for it, within a call of a module or a backward pass."""
    generated: dict[str, str] = field(default_factory=dict)
    """Texts of its kernels that torch.compile has generated, by their digests."""
    is_all_told: bool = False
    """Whether steps after it have told what they tell."""
    whole: Problem | None = None
    """A problem that is the step; None where there is none."""

    @property
    def unlike(self) -> int:
        """How many of the laps called other modules, or them other times; compiled ones do not tell of their calls."""
        return 0 if self.compiled else sum(each.module_calls != self.module_calls for each in self.laps)

    @property
    def queues_s(self) -> list[float]:
        """How long each of the laps waited for a CPU; [] where that is not known of all, as of a thread's first."""
        known = [each.queued_s for each in self.laps if each.queued_s is not None]
        return known if len(known) == len(self.laps) else []

    @property
    def faults_s(self) -> list[float]:
        """How long each of the laps waited for pages that its thread touched first; [] is not known."""
        return [each.faults * self.fault_s for each in self.laps] if self.fault_s else []

    def counted(self) -> list[tuple[Call, int]]:
        """Each distinct call and how often it was made, in order of first appearance."""
        counts: Counter[Any] = Counter()
        first: dict[Any, Call] = {}
        for call in self.calls:
            key = call.key()
            counts[key] += 1
            first.setdefault(key, call)
        return [(first[key], count) for key, count in counts.items()]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the suite to a new file, and what torch.compile has generated to one beside it.

        Raises OutputError where one cannot be written, or is there.
        """
        if self.generated:
            write_new(beside(path), texts_of(self))
        write_new(path, suite_of(self))


def write_new(path: str | os.PathLike[str], text: str) -> None:
    """A new file of all of the text, or none: half a suite is one of fewer calls. Raises OutputError."""
    outputs.write_new(path, text.encode(errors="backslashreplace"))


def beside(path: str | os.PathLike[str]) -> str:
    """The file of kernels that torch.compile has generated, of the suite that is in this one."""
    return f"{str(path).removesuffix('.toml')}.kernels.py"


def texts_of(step: CapturedStep) -> str:
    """A file of ``--kernels``; "" where torch.compile has generated nothing of the step."""
    if not step.generated:
        return ""
    words = f"Kernels that torch {step.torch} has generated for {step.of}: code that runs where it is named."
    head = [json.dumps(words, ensure_ascii=True), "", "from primbench.problem.generated import generated", ""]
    return "\n".join([*head, *(f"generated({_literal(text)})" for text in step.generated.values())]) + "\n"


def _literal(text: str) -> str:
    """To be read, where it can be."""
    return repr(text) if '"""' in text or text.endswith('"') else f'r"""{text}"""'


def left_out(step: CapturedStep) -> list[NotCalledAgain]:
    """Calls that cannot be made again, by operator and why."""
    counts: Counter[tuple[str, str]] = Counter()
    seconds: defaultdict[tuple[str, str], list[float | None]] = defaultdict(list)
    took = _took(step)
    for call, count in step.counted():
        try:
            cases(call, step.settings)
        except NotThere as reason:
            key = call.name, " ".join(str(reason).split())
            counts[key] += count
            seconds[key] += took[call.key()]
    return [
        NotCalledAgain(name=name, calls=count, reason=reason, seconds=_all(seconds[name, reason]))
        for (name, reason), count in counts.items()
    ]


def _took(step: CapturedStep) -> Mapping[object, list[float | None]]:
    """By the keys of calls how long each of these took while it was recorded."""
    found: defaultdict[object, list[float | None]] = defaultdict(list)
    for call in step.calls:
        found[call.key()].append(call.seconds)
    return found


def _all(seconds: Sequence[float | None]) -> float | None:
    """Together; None where one is not known."""
    known = [each for each in seconds if each is not None]
    return round(sum(known), 9) if known and len(known) == len(seconds) else None


def parts(step: CapturedStep) -> int:
    """Calls that the suite's entries make; of one operator several, such as the two gradients of a convolution."""
    return sum(count * len(several) for _, count, several in _made_again(step))


def _made_again(step: CapturedStep) -> Iterator[tuple[Call, int, Sequence[OperatorCase]]]:
    for call, count in step.counted():
        with contextlib.suppress(NotThere):
            yield call, count, cases(call, step.settings)


def suite_of(step: CapturedStep) -> str:
    """The text; of what cannot be called again, a comment."""
    counted: Counter[tuple[str, str, Phase]] = Counter()
    found: dict[tuple[str, str, Phase], tuple[OperatorCase, Call]] = {}
    uses: defaultdict[tuple[str, str, Phase], list[Use]] = defaultdict(list)
    of_calls: defaultdict[object, list[Use]] = defaultdict(list)
    for call, by_storage in zip(step.calls, distances(step.calls), strict=True):
        of_calls[call.key()].append(Use((), call.touched.of_tensors if call.touched else (), by_storage))
    for call, count, several in _made_again(step):
        for each in several:
            key = (each.primitive, json.dumps(each.fields), call.phase)
            found.setdefault(key, (each, call))
            counted[key] += count
            places = places_of(each.inputs, call)
            uses[key] += [use._replace(places=places) for use in of_calls[call.key()]]
    by_primitive: dict[str, list[str]] = {}
    calls: Counter[str] = Counter()
    took = _took(step)
    for key, (part, call) in found.items():
        labels = {"set": PARTS, "phase": key[2], "label": call.name, "count": counted[key]}
        if "arguments" in part.fields and (seconds := _all(took[call.key()])) is not None:
            labels["in_step_ns"] = round(seconds / len(took[call.key()]) * 1e9)
        if (apart_bytes := reuse_bytes(uses[key])) is not None:
            labels["reuse_bytes"] = apart_bytes
        by_primitive.setdefault(part.primitive, []).append(f"  {_inline(labels | part.fields)},")
        calls[part.primitive] += counted[key]
    return "\n".join([*_head(step, sum(calls.values())), *_whole(step), *_entries(by_primitive, calls)]) + "\n"


def _head(step: CapturedStep, parts: int) -> list[str]:
    """parts: calls that the entries make."""
    gone = left_out(step)
    missing = [f"# not called again, {each.calls} times: {each.name}: {each.reason}" for each in gone]
    captured = Captured(
        step=step.of,
        calls=len(step.calls),
        parts=parts,
        left_out=gone or 0,
        torch=step.torch,
        threads=step.threads,
        times_s=_rounded(each.seconds for each in step.laps),
        waits_s=_rounded(each.waited_s for each in step.laps),
        queues_s=_rounded(step.queues_s),
        faults_s=_rounded(step.faults_s),
        **_profiled(step.profiled),
        unlike=step.unlike,
        compiled=step.compiled,
        cuda_graphs=step.cuda_graphs,
        helpers=step.helpers,
        place=step.place,
    )
    known = {name: value for name, value in msgspec.to_builtins(captured).items() if value not in (None, {}, [], 0)}
    return [
        "# count: how often a step makes the call. Entries and counts may be changed, and entries left out.",
        "# reuse_bytes: what the step touches from one use of what the call is given to the next, of each input.",
        "# in_step_ns: how long the call took while the step was recorded, of what another process may not have.",
        *missing,
        f"title = {_value(f'Parts of {step.of}')}",
        "",
        f"captured = {_inline(known)}",
    ]


def _profiled(told: ProfiledSteps | None) -> dict[str, Any]:
    """Its fields, which Captured has, too."""
    if told is None:
        return {}
    return {
        name: dict(zip(found, _rounded(found.values()), strict=True)) if isinstance(found, dict) else _rounded(found)
        for name, found in told._asdict().items()
    }


def _rounded(seconds: Iterable[float]) -> list[float]:
    """To nanoseconds."""
    return [round(each, 9) for each in seconds]


def _whole(step: CapturedStep) -> list[str]:
    if step.whole is None:
        return []
    given = {each.name: getattr(step.whole, each.name) for each in fields_of(step.whole)}
    fields = {each.name: given[each.name] for each in fields_of(step.whole) if given[each.name] != each.default}
    return ["", f"{step.whole.primitive} = [", f"  {_inline({'set': WHOLE} | fields)},", "]"]


def _entries(by_primitive: Mapping[str, list[str]], calls: Mapping[str, int]) -> list[str]:
    total = sum(calls.values())
    lines = []
    for primitive in sorted(by_primitive, key=lambda name: -calls[name]):
        share = format_percent(calls[primitive] / total)
        lines += ["", f"# {calls[primitive]} of {total} calls, {share}", f"{primitive} = ["]
        lines += [*by_primitive[primitive], "]"]
    return lines


def _inline(fields: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f"{name} = {_value(value)}" for name, value in fields.items()) + " }"


def _value(value: Any) -> str:
    """In TOML, whose escapes are those of JSON but for the one of DEL."""
    if isinstance(value, dict):
        return _inline(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str) and "'" not in value and value.isprintable():
        return f"'{value}'" if '"' in value or "\\" in value else f'"{value}"'
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
