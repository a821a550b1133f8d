"""Keccak-256 against known values and a library."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emr_jobs.abi.keccak import keccak256
from tests.keccak import keccak


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
        ("abc", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"),
        (
            "Transfer(address,address,uint256)",
            "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
        ),
        (
            "Approval(address,address,uint256)",
            "8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925",
        ),
    ],
)
def test_known_values(text: str, digest: str) -> None:
    assert keccak256(text.encode()).hex() == digest


@pytest.mark.parametrize("length", [1, 134, 135, 136, 137, 271, 272, 273, 1000])
def test_every_padding_is_that_of_the_library(length: int) -> None:
    data = bytes(each % 251 for each in range(length))
    assert keccak256(data) == keccak(data)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=500))
def test_any_data_hashes_as_the_library_does(data: bytes) -> None:
    assert keccak256(data) == keccak(data)
