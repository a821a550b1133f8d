"""Every source of the issuer's keys: public keys only, which verify what the issuer signs."""

from __future__ import annotations

import jwt

from tests.conformance.harness import KeySourceHarness


def verifies(keys: KeySourceHarness, token: str) -> bool:
    kid = jwt.get_unverified_header(token)["kid"]
    found = [key for key in keys.source.fetch()["keys"] if key["kid"] == kid]
    return bool(found) and jwt.decode(token, jwt.PyJWK(found[0]), algorithms=["ES256"]) != {}


def test_the_keys_verify_what_the_issuer_signs(key_sources: KeySourceHarness) -> None:
    assert verifies(key_sources, key_sources.sign({"sub": "ada"}))


def test_a_rotation_is_seen_and_former_tokens_stay_good(key_sources: KeySourceHarness) -> None:
    old = key_sources.sign({"sub": "ada"})
    key_sources.rotate()
    new = key_sources.sign({"sub": "ada"})
    assert verifies(key_sources, old)
    assert verifies(key_sources, new)
    assert len(key_sources.source.fetch()["keys"]) == 2


def test_no_private_part_is_published(key_sources: KeySourceHarness) -> None:
    for key in key_sources.source.fetch()["keys"]:
        assert not {"d", "p", "q", "dp", "dq", "qi", "k"} & key.keys()
