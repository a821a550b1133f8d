"""Worker tokens: random, recognisable, and kept as a hash only."""

from __future__ import annotations

import hashlib
import random

from tests.manual_clock import START
from trace_core.identity.worker_token import hash_token, new_worker_token
from trace_core.kernel.ids import Ids


def seeded(seed: int) -> Ids:
    return Ids(lambda: START, random.Random(seed).getrandbits)  # noqa: S311


def test_a_token_has_a_prefix_and_256_bits() -> None:
    token = new_worker_token(seeded(1))
    assert token.startswith("trw_")
    assert len(token) == 4 + 43


def test_tokens_come_from_the_given_randomness_and_differ() -> None:
    first, second = seeded(2), seeded(2)
    tokens = [new_worker_token(first) for _ in range(100)]
    assert len(set(tokens)) == 100
    assert tokens == [new_worker_token(second) for _ in range(100)]


def test_all_bits_of_the_token_are_random() -> None:
    assert new_worker_token(Ids(lambda: START, lambda _bits: 0)) == "trw_" + "A" * 43


def test_the_hash_is_of_the_whole_token() -> None:
    assert hash_token("trw_x") == hashlib.sha256(b"trw_x").digest()
    assert len(hash_token("\ud800")) == 32
