from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from primbench import units
from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = st.floats(1e-9, 1e5)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (5e-6, "5us"),
        (1e-9, "1ns"),
        (10e-6, "10us"),
        (0.2, "200ms"),
        (0.5, "0.5s"),
        (0.5, " 0.5 s "),
        (90.0, "1.5min"),
        (7200.0, "2h"),
        (0.0, "0s"),
    ],
)
def test_duration_is_the_nearest_double_in_seconds(seconds: float, text: str) -> None:
    assert seconds == units.parse_duration(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0.5",
        "5",
        "s",
        "-1s",
        "1e3s",
        "nan s",
        "infs",
        "5 m",
        "5US",
        "1.s",
        ".5s",
        "1s 2ms",
        "٣s",
        "1\x00s",
    ],
)
def test_duration_without_a_number_and_a_unit_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^duration .*expected a positive number and one of the units .*200ms$"):
        units.parse_duration(text)


@pytest.mark.parametrize(("fraction", "text"), [(0.005, "0.5%"), (0.0, "0%"), (1.0, "100 %"), (0.00001, "0.001%")])
def test_percentage_becomes_a_fraction(fraction: float, text: str) -> None:
    assert fraction == units.parse_fraction(text)


@pytest.mark.parametrize("text", ["0.005", "", "%", "5s", "-1%"])
def test_fraction_without_percent_sign_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^percentage .*as in 0\.5%$"):
        units.parse_fraction(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (1, "1B"),
        (64, "64B"),
        (4096, "4KiB"),
        (1536, "1.5KiB"),
        (536_870_912, "512MiB"),
        (1_000_000_000, "1GB"),
        (1000, "1kB"),
        (1_099_511_627_776, "1TiB"),
    ],
)
def test_size_is_binary_with_an_i_and_decimal_without(size_bytes: int, text: str) -> None:
    assert size_bytes == units.parse_size(text)


@pytest.mark.parametrize("text", ["4096", "4K", "4kib", "1Kb", "", "-4KiB", "1e3B"])
def test_size_without_a_known_unit_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^size .*as in 4KiB$"):
        units.parse_size(text)


def test_part_of_a_byte_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"^size '0\.3KiB': 307\.2 bytes is not a whole number of bytes$"):
        units.parse_size("0.3KiB")


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((4096,), "4096"),
        ((0,), "0"),
        ((64, 128, 256), "64:256"),
        ((64, 256), "64:256:4"),
        ((3, 30, 300), "3:2999:10"),
        ((7,), "7:7"),
        ((4096, 4096, 2 * 1024**2), "4K,4k,2M"),
        ((16, 1024, 2048), "16,1K:2K"),
        ((1, 256), "1,256"),
        ((128, 512, 0), "128,512,0"),
    ],
)
def test_counts_are_one_number_or_a_sweep_up_to_its_end(counts: tuple[int, ...], text: str) -> None:
    assert counts == units.parse_counts(text)


def test_counts_of_bytes_carry_their_unit() -> None:
    assert (1024, 4096, 16384) == units.parse_counts("1KiB:16KiB:4", "B")
    assert (64,) == units.parse_counts("64B", "B")
    assert (4096, 8192, 10) == units.parse_counts("4k:8KiB,10B", "B")
    with pytest.raises(InvalidRequest, match=r"^size '64': .* and one of the units B, .*as in 4KiB or 4K$"):
        units.parse_counts("64", "B")


@pytest.mark.parametrize(
    "text", ["", "-5", "1.5", "4kB", "1e3", "16,", ",", "4,x", "٣", " 1", "1:2:1.5", "1::2", "a:b"]
)
def test_count_that_is_not_whole_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(
        InvalidRequest, match=r": a whole number such as 4096 or 4K \(of 1024, as M and G\), or a sweep: 64:4096:2$"
    ):
        units.parse_counts(text)


@pytest.mark.parametrize(
    ("text", "meant"), [("1,024", "1024"), ("1,024KiB", "1024KiB"), ("1,000,576", "1000576"), ("64,1,024", "64,1024"),
                        ("0064", "64"), ("16,02", "16,2")]
)  # fmt: skip
def test_a_comma_between_thousands_is_none_of_a_list(text: str, meant: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^'{text}': no number of a list begins with 0: write {meant}$"):
        units.parse_counts(text, "B" if "B" in text else "")


@pytest.mark.parametrize("text", ["4:2", "0:4", "1:8:1", "1:8:0", "1:2:3:4"])
def test_sweep_that_goes_nowhere_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"a number, or MIN:MAX:FACTOR with 1 <= MIN <= MAX and FACTOR >= 2$"):
        units.parse_counts(text)


@given(st.integers(1, 10**19), st.integers(1, 10**19), st.integers(2, 10**6))
def test_a_sweep_ascends_by_its_factor_as_far_as_it_may(first: int, last: int, factor: int) -> None:
    first, last = sorted((first, last))
    found = units.parse_counts(f"{first}:{last}:{factor}")
    assert [first * factor**i for i in range(len(found))] == list(found)
    assert found[-1] <= last < found[-1] * factor


def refusal(parse: Callable[[str], Any], text: str) -> str:
    try:
        assert parse(text) >= 0
    except InvalidRequest as error:
        return str(error)
    return ""


@given(st.text())
def test_any_text_is_a_quantity_or_refused_in_one_line(text: str) -> None:
    for parse in (units.parse_duration, units.parse_fraction, units.parse_size, lambda t: units.parse_counts(t)[0]):
        assert "\n" not in refusal(parse, text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5.13 us", 5.13e-6),
        ("5.00 us", 5e-6),
        ("1.00 ns", 1e-9),
        ("0.250 ns", 2.5e-10),
        ("999 us", 999.4e-6),
        ("1.00 ms", 999.9e-6),
        ("21.6 ms", 0.0216),
        ("1230 s", 1234.0),
        ("0 s", 0.0),
        ("-5.13 us", -5.13e-6),
        ("-", None),
    ],
)
def test_time_has_three_digits_and_the_unit_that_fits(text: str, seconds: float | None) -> None:
    assert text == units.format_time(seconds)


@pytest.mark.parametrize(
    ("text", "unit"), [("5130 ns", "ns"), ("5.13 us", "us"), ("0.00513 ms", "ms"), ("0.00000513 s", "s")]
)
def test_time_keeps_its_digits_in_a_given_unit(text: str, unit: units.TimeUnit) -> None:
    assert text == units.format_time(5.13e-6, unit)


@pytest.mark.parametrize(
    ("text", "noise"),
    [
        ("21.638 ms", 0.0),
        ("21.638 ms", 1e-9),
        ("21.638 ms", 1e-4),
        ("21.64 ms", 1e-3),
        ("21.6 ms", 0.005),
        ("22 ms", 0.05),
        ("20 ms", 0.5),
        ("20 ms", 40.0),
    ],
)
def test_time_ends_at_the_digit_that_the_noise_reaches(text: str, noise: float) -> None:
    assert text == units.format_time(0.021638, noise=noise)


@given(SECONDS)
def test_printed_time_reads_back_within_its_digits(seconds: float) -> None:
    assert seconds == pytest.approx(units.parse_duration(units.format_time(seconds)), rel=0.0051)


@given(SECONDS, st.floats(0, 2))
def test_printed_time_is_within_the_noise_of_the_value(seconds: float, noise: float) -> None:
    printed = units.parse_duration(units.format_time(seconds, noise=noise))
    # Half of the last digit's place, which is no more than the noise itself; 5 digits are 5e-5.
    assert pytest.approx(seconds, rel=max(noise / 2, 5e-5) * 1.001) == printed


@given(SECONDS, st.sampled_from(["ns", "us", "ms", "s"]))
def test_unit_does_not_change_the_printed_time(seconds: float, unit: units.TimeUnit) -> None:
    own, given_unit = units.format_time(seconds), units.format_time(seconds, unit)
    assert units.parse_duration(own) == units.parse_duration(given_unit)


@given(SECONDS)
def test_unit_that_fits_leaves_one_to_three_digits_before_the_point(seconds: float) -> None:
    number, unit = units.format_time(seconds).split()
    assert unit == "s" or re.fullmatch(r"[1-9]\d{0,2}(\.\d+)?", number)


@pytest.mark.parametrize(
    ("unit", "cells", "values"),
    [
        ("GFLOP/s", ["9000", "200"], [9e12, 2e11]),
        ("FLOP/s", ["50.7 T", "200 G"], [5.07e13, 2e11]),
        ("TFLOP/s", ["18.4", "689", "0"], [1.84e13, 6.89e14, 0.0]),
        ("FLOP/s", ["50.7 T", "2 G", "-"], [5.07e13, 2e9, None]),
        ("FLOP/s", ["30 k", "0.5"], [3e4, 0.5]),
        ("GFLOP/s", ["900", "-"], [9e11, None]),
        ("TFLOP/s", ["1"], [9.996e11]),
        ("FLOP/s", ["0.01"], [0.01]),
        ("FLOP/s", ["-"], [None]),
    ],
)
def test_a_column_of_rates_has_one_unit_or_a_prefix_a_cell(
    unit: str, cells: list[str], values: list[float | None]
) -> None:
    assert (unit, cells) == units.rate_column(values, "FLOP/s")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0 B", 0),
        ("1 B", 1),
        ("1023 B", 1023),
        ("4 KiB", 4096),
        ("1.50 KiB", 1536),
        ("9.60 KiB", 9830),
        ("1023 KiB", 1_047_552),
        ("1.00 MiB", 1_048_575),
        ("139 GiB", 139 * 1024**3),
        ("2048 TiB", 2 * 1024**5),
        ("-", None),
    ],
)
def test_bytes_are_binary(text: str, count: int | None) -> None:
    assert text == units.format_bytes(count)


@given(st.integers(0, 2**50))
def test_printed_bytes_read_back_within_their_digits(count: int) -> None:
    number, unit = units.format_bytes(count).split()
    assert count == pytest.approx(float(number) * units.parse_size(f"1{unit}"), rel=0.0051)


@given(st.integers(1, 1023), st.sampled_from(["B", "KiB", "MiB", "GiB", "TiB"]))
def test_whole_sizes_survive_a_round_trip(number: int, unit: str) -> None:
    text = f"{number} {unit}"
    assert text == units.format_bytes(units.parse_size(text))


@pytest.mark.parametrize(
    ("text", "fraction"),
    [
        ("0.3%", 0.003),
        ("4.1%", 0.041),
        ("87.3%", 0.8731),
        ("100.0%", 1.0),
        ("0.05%", 0.0005),
        ("0.0005%", 0.000005),
        ("-4.1%", -0.041),
        ("0.0%", 0.0),
        ("-", None),
    ],
)
def test_percent_shows_a_digit_however_small(text: str, fraction: float | None) -> None:
    assert text == units.format_percent(fraction)


@given(st.integers(1, 10**6))
def test_percentages_of_one_decimal_survive_a_round_trip(thousandths: int) -> None:
    fraction = thousandths / 1000
    assert fraction == pytest.approx(units.parse_fraction(units.format_percent(fraction)), abs=1e-12)


@pytest.mark.parametrize(
    ("hertz", "text"), [(None, "-"), (0.0, "0 Hz"), (1.98e9, "1.98 GHz"), (2.619e9, "2.62 GHz"), (345e6, "345 MHz")]
)
def test_frequencies(hertz: float | None, text: str) -> None:
    assert text == units.format_frequency(hertz)
