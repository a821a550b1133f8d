"""Worker tokens: long, random, stored as a hash."""

from __future__ import annotations

import hashlib
import random
import re

from trace_core.identity.worker_token import hash_token, new_worker_token


def test_a_token_has_its_prefix_and_256_bits() -> None:
    token = new_worker_token(random.Random(1).getrandbits)  # noqa: S311
    assert re.fullmatch(r"trw_[A-Za-z0-9_-]{43}", token)


def test_tokens_differ_and_follow_their_randomness() -> None:
    first, second = random.Random(1), random.Random(1)  # noqa: S311
    tokens = [new_worker_token(first.getrandbits) for _ in range(100)]
    assert len(set(tokens)) == 100
    assert tokens == [new_worker_token(second.getrandbits) for _ in range(100)]


def test_a_token_of_leading_zeros_keeps_its_length() -> None:
    assert new_worker_token(lambda _bits: 0) == "trw_" + "A" * 43


def test_the_hash_is_sha256_of_the_text() -> None:
    assert hash_token("trw_abc") == hashlib.sha256(b"trw_abc").digest()
    assert len(hash_token("\ud800")) == 32
