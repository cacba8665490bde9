from __future__ import annotations

import pytest

from primbench.devices import Device, is_device


@pytest.mark.parametrize(
    ("text", "expected"), [("cpu", Device("cpu")), ("cuda:0", Device("cuda")), ("cuda:12", Device("cuda", 12))]
)
def test_words_are_read_and_written(text: str, expected: Device) -> None:
    assert (expected, text) == (Device.parse(text), str(expected))
    assert is_device(text)


def test_a_kind_alone_is_its_first() -> None:
    assert Device("cuda", 0) == Device.parse("cuda")
    assert not is_device("cuda")


@pytest.mark.parametrize(
    "text", ["", "all", "cpu:0", "cuda:", "cuda:-1", "cuda:01", "cuda:1000", "cuda:٣", "cuda:" + "1" * 5000, "gpu:0"]
)
def test_other_words_are_no_device_and_none_of_a_kind_that_there_is(text: str) -> None:
    assert not is_device(text)
    assert Device.parse(text).kind not in ("cpu", "cuda")
