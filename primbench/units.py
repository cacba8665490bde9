"""Times, sizes and rates as people write and read them: the only place that knows 10^6 or 2^20.

Parsers return SI units, whole bytes or fractions, and refuse a number without a unit. Formatters show None as
UNKNOWN and no more digits than the noise supports.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING, Literal

from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from decimal import Decimal
    from fractions import Fraction

UNKNOWN = "-"
TimeUnit = Literal["ns", "us", "ms", "s"]

_DURATIONS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_SIZES_BYTES = {"B": 1}
_SIZES_BYTES |= {f"{prefix}B": 1000**power for power, prefix in enumerate("kMGT", 1)}
_SIZES_BYTES |= {f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)}
_COUNT_PREFIXES = {prefix: 1024**power for power, prefix in enumerate(("", "K", "M", "G"))}
_ZERO_FIRST = r"(?:^|[,:])0[0-9]"  # else "1,024" were 1 and 24; "1,256" may well be meant as two
_THOUSANDS = r"(?<![0-9])[1-9][0-9]{0,2}(?:,[0-9]{3})*,0[0-9]{2}(?:,[0-9]{3})*(?![0-9])"
_QUANTITY = r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([A-Za-z%]+)\s*"

_TIME_EXPONENTS: dict[TimeUnit, int] = {"s": 0, "ms": -3, "us": -6, "ns": -9}
_DECIMAL_PREFIXES = ("", "k", "M", "G", "T", "P")
_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_MINUTE_S = 60
_DIGITS = 3
_LARGEST_RATE = 10_000
_MOST_DIGITS = 5


def parse_duration(text: str) -> float:
    """Seconds of "10us", "200ms", "0.5s", "1.5min". Raises InvalidRequest."""
    return float(_parse(text, _DURATIONS_NS, "duration", "200ms") / 10**9)


def parse_fraction(text: str) -> float:
    """0.005 of "0.5%". Raises InvalidRequest."""
    return float(_parse(text, {"%": 1}, "percentage", "0.5%") / 100)


def parse_size(text: str) -> int:
    """Bytes of "64B", "4KiB" (1024) or "1GB" (10^9). Raises InvalidRequest, also for a part of a byte."""
    return _bytes(_parse(text, _SIZES_BYTES, "size", "4KiB"), text)


def _bytes(size_bytes: Fraction, text: str) -> int:
    if size_bytes.denominator != 1:
        raise InvalidRequest(f"size {text!r}: {float(size_bytes):g} bytes is not a whole number of bytes")
    return int(size_bytes)


def parse_counts(text: str, unit: Literal["", "B"] = "") -> tuple[int, ...]:
    """Whole numbers of a list "16,32", in which "4K" is 4096, and a sweep "MIN:MAX:FACTOR" is MIN times powers of
    FACTOR (default 2) up to MAX.

    unit: "B" reads sizes such as 4KiB; a prefix alone is one of 1024 there, too. Raises InvalidRequest.
    """
    if text.isprintable() and re.search(_ZERO_FIRST, text):
        raise InvalidRequest(f"{text!r}: no number of a list begins with 0: write {_whole(text)}")
    return tuple(itertools.chain.from_iterable(_parse_sweep(part, unit) for part in text.split(",")))


def _whole(text: str) -> str:
    """The list without the commas that stand between thousands: "64,1,024" as "64,1024"."""
    return re.sub(r"(^|[,:])0+(?=[0-9])", r"\1", re.sub(_THOUSANDS, lambda found: found[0].replace(",", ""), text))


def _parse_sweep(text: str, unit: Literal["", "B"]) -> tuple[int, ...]:
    parts = text.split(":")
    ends = [_parse_amount(part) if unit else _parse_count(part) for part in parts[:2]]
    factor = _parse_count(parts[2]) if len(parts) == 3 else 2
    if len(parts) == 1:
        return (ends[0],)
    if len(parts) > 3 or not 1 <= ends[0] <= ends[1] or factor < 2:
        raise InvalidRequest(f"{text!r}: a number, or MIN:MAX:FACTOR with 1 <= MIN <= MAX and FACTOR >= 2")
    return tuple(itertools.takewhile(lambda n: n <= ends[1], (ends[0] * factor**i for i in itertools.count())))


def _parse_count(text: str) -> int:
    match = _prefixed_count(text)
    if match is None:
        raise InvalidRequest(
            f"{text!r}: a whole number such as 4096 or 4K (of 1024, as M and G), or a sweep: 64:4096:2"
        )
    prefix: int = _COUNT_PREFIXES[match[2].upper()]
    return int(match[1]) * prefix


def _parse_amount(text: str) -> int:
    """Bytes; "4K" is 4 KiB, as nccl-tests and dd read it."""
    if (match := _prefixed_count(text)) and match[2]:
        return _parse_count(text)
    return _bytes(_parse(text, _SIZES_BYTES, "size", "4KiB or 4K"), text)


def _prefixed_count(text: str) -> re.Match[str] | None:
    return re.fullmatch(r"([0-9]{1,20})([kKmMgG]?)", text, re.ASCII)


def _parse(text: str, units: dict[str, int], kind: str, example: str) -> Fraction:
    from fractions import Fraction  # 5 * 1e-6 is not the double nearest to 5 us

    match = re.fullmatch(_QUANTITY, text, re.ASCII)
    if match is None or match[2] not in units:
        unit = f"one of the units {', '.join(units)}" if len(units) > 1 else next(iter(units))
        raise InvalidRequest(f"{kind} {text!r}: expected a positive number and {unit}, as in {example}")
    return Fraction(match[1]) * units[match[2]]


def format_time(seconds: float | None, unit: TimeUnit | None = None, noise: float | None = None) -> str:
    """``0.00000513`` as "5.13 us"; the unit follows the value unless it is given.

    noise: half-width of the value's interval over the value. The last digit shown is the first that the noise
    reaches, within 1 to 5 digits; 3 digits where the noise is unknown. The idea is torch.utils.benchmark's.
    """
    if seconds is None:
        return UNKNOWN
    rounded = _rounded(seconds, _supported_digits(seconds, noise))
    shown = unit or _time_unit(rounded)
    return f"{_plain(rounded, _TIME_EXPONENTS[shown])} {shown}"


def microseconds(seconds: float) -> str:
    """``0.00000513`` as "5.13": without its unit, for a column that has it in its heading."""
    return f"{seconds * 1e6:.2f}"


def megabytes(count: float) -> str:
    """``5130000`` as "5.13", likewise: of 10^6 bytes."""
    return f"{count / 1e6:.2f}"


def minutes(seconds: float) -> str:
    """``96`` as "1.6 min"; below a minute as format_time() has it, in hours from two on."""
    if seconds < _MINUTE_S:
        return format_time(seconds)
    hours = seconds / _MINUTE_S / _MINUTE_S
    return f"{hours:.1f} h" if hours >= 2 else f"{seconds / _MINUTE_S:.1f} min"


def rate_format(
    values: Sequence[float | None], what: Literal["FLOP/s", "B/s"]
) -> tuple[str, Callable[[float | None], str]]:
    """The heading of a column of rates, and how each is written: 3 digits, unknown as "-".

    One unit for all, that of the smallest, so that none is below 1; each its own prefix where the largest would have
    more than four digits in it.
    """
    known = [value for value in values if value]
    power = _decimal_power(_rounded(min(known), _DIGITS)) if known else 0
    if known and max(known) >= _LARGEST_RATE * 1000**power:
        return what, _prefixed
    return _DECIMAL_PREFIXES[power] + what, lambda value: UNKNOWN if value is None else _digits(value / 1000**power)


def _digits(value: float) -> str:
    """Three, or all before the point."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def rate_column(values: Sequence[float | None], what: Literal["FLOP/s", "B/s"]) -> tuple[str, list[str]]:
    """The heading and the cells of a column of rates, as rate_format() has them."""
    heading, written = rate_format(values, what)
    return heading, [written(value) for value in values]


def format_rate(value: float, what: Literal["FLOP/s", "B/s"]) -> str:
    """With a unit of its own."""
    heading, (number,) = rate_column([value], what)
    return f"{number} {heading}"


def _prefixed(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    power = _decimal_power(_rounded(value, _DIGITS))
    return f"{value / 1000**power:.3g} {_DECIMAL_PREFIXES[power]}".rstrip()


def format_bytes(count: int | None) -> str:
    """``1536`` as "1.50 KiB", ``4096`` as "4 KiB": multiples of 1024, 3 digits or a whole number."""
    if count is None:
        return UNKNOWN
    power = 0
    # 1023.5 KiB would be rounded to "1024 KiB".
    while power < len(_BINARY_UNITS) - 1 and round(count / 1024**power) >= 1024:
        power += 1
    whole, rest = divmod(count, 1024**power)
    if rest == 0:
        return f"{whole} {_BINARY_UNITS[power]}"
    scaled = count / 1024**power
    digits = max(_DIGITS, len(str(int(scaled))))
    return f"{_plain(_rounded(scaled, digits), 0)} {_BINARY_UNITS[power]}"


def format_frequency(hertz: float | None) -> str:
    """``1.98e9`` as "1.98 GHz", 3 digits."""
    if hertz is None:
        return UNKNOWN
    power = _decimal_power(_rounded(hertz, _DIGITS))
    return f"{hertz / 1000**power:.3g} {_DECIMAL_PREFIXES[power]}Hz"


def format_percent(fraction: float | None) -> str:
    """``0.003`` as "0.3%": one decimal, and below 0.1% as many as show the first digit that is not 0."""
    return UNKNOWN if fraction is None else f"{percent_number(fraction)}%"


def percent_number(fraction: float) -> str:
    """The same without its sign."""
    percent = 100 * fraction
    decimals = max(1, -math.floor(math.log10(abs(percent)))) if percent and math.isfinite(percent) else 1
    return f"{percent:.{decimals}f}"


def _supported_digits(value: float, noise: float | None) -> int:
    if noise is None:
        return _DIGITS
    half_width = abs(value) * min(noise, 1.0)
    if half_width == 0:
        return _MOST_DIGITS
    digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(half_width)) + 1
    return min(digits, _MOST_DIGITS)


def _rounded(value: float, digits: int) -> Decimal:
    """Rounded first, scaled after: 999.9 us to 3 digits is 1.00 ms, and trailing zeros stay."""
    from decimal import Decimal

    return Decimal(f"{value:.{digits - 1}e}") if value else Decimal(0)


def _plain(rounded: Decimal, exponent: int) -> str:
    """``rounded / 10^exponent`` without an exponent of its own."""
    return f"{rounded.scaleb(-exponent) if rounded else rounded:f}"


def _time_unit(rounded: Decimal) -> TimeUnit:
    if not rounded:
        return "s"
    return next((unit for unit, power in _TIME_EXPONENTS.items() if rounded.adjusted() >= power), "ns")


def _decimal_power(rounded: Decimal) -> int:
    """Which of the prefixes: thousands in ``rounded``, between none and 10^15."""
    return min(max(rounded.adjusted() // 3, 0), len(_DECIMAL_PREFIXES) - 1) if rounded else 0
