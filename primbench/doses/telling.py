"""What trials show of each harm, and what that foretells of a place."""

from __future__ import annotations

import math
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from primbench.compare.judgement import TOO_BUSY
from primbench.doses.factors import UNDOSED, factors
from primbench.doses.found import Foretold, Loss, PlaceDose, Slope, is_too_busy
from primbench.doses.slopes import DoseLine, DosePoint, HarmTerm, Scattered, foretold, line, mean
from primbench.kernels.replay.problem import DELAYS_NS, delayed
from primbench.stats import exponential, geometric_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from primbench.doses.dosing import Dosing
    from primbench.doses.factors import Factor, FactorId, Probe, Trial
    from primbench.environment.limits import Limits
    from primbench.spec.arm import Arm

MARGIN = 0.05
"""Share of its time by which a step may be longer at the largest dose without mattering."""
SLACK = 1.05
"""What a dose may be beyond the largest that was tried, by which it is measured."""
SAYS_NOTHING = 100.0
"""Ends of an interval that are so many times each other tell of no place."""
NO_DOSE = 0.02
"""A neighbour by which a probe is longer by less has done no harm, nor has a limit by which so little is lacking."""


class Told(NamedTuple):
    """A slope, with what others are reckoned by."""

    slope: Slope
    line: DoseLine | None
    """None where it was not measured."""
    harm: Scattered | None = None
    """Of a neighbour: the logarithm of how many times as long its probe takes beside it."""


def told(dosing: Dosing) -> list[Told]:
    """Of each harm, as far as it is known by now."""
    by_id = {trial.id: trial for trial in dosing.trials}
    return [_told(dosing, each, by_id[each.trial]) for each in factors(dosing.here)]


def _told(dosing: Dosing, factor: Factor, trial: Trial) -> Told:
    points = [*_points(dosing, factor, trial)]
    found = line(points)
    harm = _harm(dosing, factor.probe, dosing.numbers[trial.id], factor.arm, factor.baseline) if factor.arm else None
    largest = max((point.dose for point in points), default=None)
    slope = Slope(
        factor=factor.id, words=factor.words, per=factor.per, verdict="not told", largest_dose=largest,
        reason=_reason(dosing, factor, trial, points, found),
    )  # fmt: skip
    if found is None or largest is None:
        return Told(slope, None, harm)
    low, high = found.slope.interval() or (None, None)
    slope = replace(slope, share=found.slope.value, low=low, high=high, pairs=len({each.pair for each in points}))
    return Told(_judged(dosing, slope, largest), found, harm)


def _judged(dosing: Dosing, slope: Slope, largest: float) -> Slope:
    if slope.factor not in DELAYS_NS and is_too_busy(dosing.waited_share()):
        return replace(slope, reason=TOO_BUSY)
    if slope.low is None or slope.high is None:
        return slope
    return replace(slope, verdict=_verdict(slope.low, slope.high, largest))


def _reason(
    dosing: Dosing, factor: Factor, trial: Trial, points: Sequence[DosePoint], found: DoseLine | None
) -> str | None:
    if found is not None:
        return None
    if trial.why_not:
        return trial.why_not
    reasons = dosing.reasons(dosing.numbers[trial.id])
    if points and not reasons:
        return "no dose was more than the step has to spare"
    if factor.dose_ns and any(dosing.measured(each, UNDOSED) for each in dosing.numbers[trial.id]):
        return "it makes none of them here"
    return "; ".join(reasons) or ("it was cut off before" if dosing.is_cut_off else "no time was left for it")


def _verdict(low: float, high: float, largest: float) -> Loss:
    if low * largest > -MARGIN and high * largest < MARGIN:
        return "nothing"
    return "loses" if low > 0 else "gains" if high < 0 else "not told"


def _points(dosing: Dosing, factor: Factor, trial: Trial) -> Iterator[DosePoint]:
    """Of all pairs of which the step was measured without the harm and with it."""
    for number in dosing.numbers[trial.id]:
        several = [*(_delays if factor.dose_ns else _arms)(dosing, factor, trial, number)]
        if len(several) > 1:
            yield from several


def _delays(dosing: Dosing, factor: Factor, trial: Trial, number: int) -> Iterator[DosePoint]:
    """Of one process, which has all doses in each of its rounds."""
    assert factor.id in DELAYS_NS
    measurement, delays_ns = dosing.measured(number, UNDOSED), DELAYS_NS[factor.id]
    if measurement is None or delayed(factor.id, 0) not in measurement.others:
        return
    rounds_s = [measurement.others[delayed(factor.id, delay_ns)].samples_s for delay_ns in delays_ns]
    for delay_ns, times_s in zip(delays_ns, rounds_s, strict=True):
        ratios = [time_s / base_s for time_s, base_s in zip(times_s, rounds_s[0], strict=True)]
        yield DosePoint(number, delay_ns / factor.dose_ns, median(ratios))


def _arms(dosing: Dosing, factor: Factor, trial: Trial, number: int) -> Iterator[DosePoint]:
    """Of a process each."""
    base_s = dosing.step_s(number, factor.baseline)
    if base_s is None:
        return
    yield DosePoint(number, 0.0, 1.0)
    names = [factor.arm] if factor.arm else [arm.name for arm in trial.arms[1:]]
    for name in names:
        found_s, limits = dosing.step_s(number, name), _limits(dosing, number, name)
        if found_s is not None and limits is not None:
            dose = factor.of_limits(limits, dosing.here) if factor.of_limits else 1.0
            yield DosePoint(number, dose, found_s / base_s)


def _limits(dosing: Dosing, number: int, arm: str) -> Limits | None:
    """What the worker of a pair has read of its place."""
    workers = {each.case.arm: each.worker for each in dosing.found.records if each.case.process == number}
    found = (each for each in dosing.found.workers if each.worker == workers.get(arm))
    return next((each.environment.limits for each in found), None)


def _harm(
    dosing: Dosing, probe: Probe | None, numbers: Sequence[int], arm: str, baseline: str = UNDOSED
) -> Scattered | None:
    """The logarithm of how many times as long a probe takes in an arm; None where it was not measured there."""
    if probe is None:
        return None
    pairs = [(dosing.probe_s(each, arm, probe), dosing.probe_s(each, baseline, probe)) for each in numbers]
    logs = [math.log(there_s / here_s) for there_s, here_s in pairs if there_s and here_s]
    return mean(logs) if logs else None


def probes_of(dosing: Dosing, arm: Arm) -> list[Probe]:
    """What is measured in a place before the step runs there: of a neighbour's harm where it has one, else of calls."""
    return [each.probe for each in factors(dosing.here) if each.probe and bool(each.arm) == bool(arm.neighbour)]


def foretell(dosing: Dosing, known: Sequence[Told], arm: Arm, probed: Sequence[int], pairs: int) -> Foretold:
    """What a place will do to the step, by slopes and what was measured there. probed: pairs of probes."""
    limits = next(filter(None, (_limits(dosing, each, arm.name) for each in probed)), None)
    if limits is None:
        return Foretold(place=arm.name, reason="; ".join(dosing.reasons(probed)) or "nothing ran there")
    doses = _doses(dosing, known, arm, limits, probed)
    if doses is None:
        return Foretold(place=arm.name, reason="; ".join(dosing.reasons(probed)) or "no call was measured there")
    before = Foretold(place=arm.name, doses=[*map(_place_dose, doses, doses.values())])
    harmful = _harmful(doses)
    lines = _lines(known)
    if unknown := harmful.keys() - lines:
        return replace(before, reason=f"no slope is known of {' or '.join(sorted(unknown))}")
    log = _foretold([HarmTerm(lines[name].slope, dose) for name, dose in harmful.items()], known, pairs)
    if log is None:
        return replace(before, reason="too few pairs tell of the scatter")
    low, high = map(exponential, log.interval() or ())
    return replace(before, ratio=exponential(log.value), low=low, high=high, beyond=_beyond_tried(known, doses))


def _harmful(doses: Mapping[FactorId, Scattered]) -> dict[FactorId, Scattered]:
    """Those that are not none for certain."""
    return {name: dose for name, dose in doses.items() if abs(dose.value) > NO_DOSE or dose.error}


def _lines(known: Sequence[Told]) -> dict[FactorId, DoseLine]:
    return {each.slope.factor: each.line for each in known if each.line is not None}


def _foretold(terms: Sequence[HarmTerm], known: Sequence[Told], pairs: int) -> Scattered | None:
    """As ``foretold()`` has it, by the scatter of all processes; None where that says nothing."""
    scatter = _scatter(known)
    log = foretold(terms, scatter, pairs) if scatter else None
    low, high = (log and log.interval()) or (-math.inf, math.inf)
    return log if high - low < math.log(SAYS_NOTHING) else None


def _beyond_tried(known: Sequence[Told], doses: Mapping[FactorId, Scattered]) -> list[FactorId]:
    """Harms of which a place has more than was tried."""
    largest = {each.slope.factor: each.slope.largest_dose or 0.0 for each in known}
    return [name for name, dose in doses.items() if dose.value > SLACK * largest[name]]


def _place_dose(name: FactorId, dose: Scattered) -> PlaceDose:
    low, high = dose.interval() or (None, None)
    return PlaceDose(factor=name, dose=dose.value, low=low, high=high)


def _doses(
    dosing: Dosing, known: Sequence[Told], arm: Arm, limits: Limits, probed: Sequence[int]
) -> dict[FactorId, Scattered] | None:
    """Of each harm that the place may have; None where calls or collectives were not measured, which may have any."""
    found: dict[FactorId, Scattered] = {}
    harms = {each.slope.factor: each.harm for each in known}
    for factor in factors(dosing.here):
        if factor.of_limits is not None:
            found[factor.id] = Scattered(factor.of_limits(limits, dosing.here), 0.0)
        elif factor.arm and arm.neighbour is not None:
            found[factor.id] = _neighbours_dose(harms[factor.id], _beyond(dosing, factor, arm, probed))
        elif not factor.arm and arm.neighbour is None:
            longer = _longer(dosing, factor, arm, probed)
            if longer is None:
                return None
            found[factor.id] = longer
    return found


def _beyond(dosing: Dosing, factor: Factor, arm: Arm, probed: Sequence[int]) -> Scattered | None:
    """The logarithm of how many times as long its probe takes in a place, beyond what it takes in the baseline."""
    there = _harm(dosing, factor.probe, probed, arm.name)
    if there is None or factor.baseline == UNDOSED:
        return there
    base = _harm(dosing, factor.probe, dosing.numbers[factor.trial], factor.baseline)
    if base is None or base.error is None or there.error is None:
        return None
    return Scattered(
        there.value - base.value, math.hypot(there.error, base.error), min(there.freedom, base.freedom)
    )  # fmt: skip


def _neighbours_dose(dosed: Scattered | None, there: Scattered | None) -> Scattered:
    """Its harm over the one by which the step was dosed; from none to all of that where the probe knew of none."""
    interval = dosed and dosed.interval()
    if dosed is None or there is None or interval is None or interval[0] < math.log1p(NO_DOSE):
        return Scattered(0.5, math.sqrt(1 / 12))
    dose = there.value / dosed.value
    if there.error is None or dosed.error is None:
        return Scattered(dose)
    relative = math.hypot(there.error / dosed.value, dose * dosed.error / dosed.value)
    return Scattered(dose, relative, min(there.freedom, dosed.freedom))


def _longer(dosing: Dosing, factor: Factor, arm: Arm, probed: Sequence[int]) -> Scattered | None:
    """By how many doses a call, or a collective, is longer there; None where that was not measured."""
    probe = factor.probe
    assert probe is not None
    pairs = [(dosing.probe_s(each, arm.name, probe), dosing.probe_s(each, UNDOSED, probe)) for each in probed]
    longer = [(there_s - here_s) * 1e9 / factor.dose_ns for there_s, here_s in pairs if there_s and here_s]
    return mean(longer) if longer else None


def _scatter(known: Sequence[Told]) -> Scattered | None:
    """Of the logarithm of a ratio of two processes, by the residuals of all lines through processes."""
    found = [each.line.residual for each in known if each.line and each.slope.factor not in DELAYS_NS]
    found = [each for each in found if each.freedom > 0]
    freedom = sum(each.freedom for each in found)
    if not freedom:
        return None
    return Scattered(math.sqrt(sum(each.freedom * each.value**2 for each in found) / freedom), freedom=freedom)


def measured(dosing: Dosing, before: Foretold, arm: Arm, numbers: Sequence[int]) -> Foretold:
    """The same with what the step took there."""
    pairs = [(dosing.step_s(each, arm.name), dosing.step_s(each, UNDOSED)) for each in numbers]
    both = [(there_s, here_s) for there_s, here_s in pairs if there_s and here_s]
    if not both:
        reasons = [*([before.reason] if before.reason else []), *dosing.reasons(numbers)]
        return replace(before, reason="; ".join(dict.fromkeys(reasons)) or "the step did not run there")
    ratio = geometric_mean([there_s / here_s for there_s, here_s in both])
    time_s = fmean(there_s for there_s, _ in both)
    return replace(before, pairs=len(both), measured=ratio, time_s=time_s, is_within=_is_within(before, ratio))


def _is_within(before: Foretold, ratio: float) -> bool | None:
    return None if before.low is None or before.high is None else before.low <= ratio <= before.high
