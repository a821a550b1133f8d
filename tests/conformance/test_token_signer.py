"""Every token signer: compact ES256 tokens that its published keys verify."""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jwt
import pytest

from tests.conformance.harness import TokenSignerHarness

CLAIMS = {"sub": "task", "number": 7, "text": "ž", "list": [1, [2]]}


def verified(token: str, keys: dict[str, Any]) -> dict[str, Any]:
    [key] = [
        key for key in keys["keys"] if key["kid"] == jwt.get_unverified_header(token).get("kid")
    ]
    claims: dict[str, Any] = jwt.decode(token, jwt.PyJWK(key), algorithms=["ES256"])
    return claims


def test_a_token_is_verified_by_the_published_keys(signers: TokenSignerHarness) -> None:
    token = signers.signer.sign(CLAIMS)
    assert verified(token, signers.signer.jwks()) == CLAIMS
    assert verified(token, signers.another().jwks()) == CLAIMS


def test_the_header_is_exactly_algorithm_type_and_key(signers: TokenSignerHarness) -> None:
    header = jwt.get_unverified_header(signers.signer.sign(CLAIMS))
    assert header == {"alg": "ES256", "typ": "JWT", "kid": signers.signer.jwks()["keys"][0]["kid"]}


def test_the_signature_is_two_numbers_of_32_bytes(signers: TokenSignerHarness) -> None:
    for _ in range(8):
        signature = signers.signer.sign(CLAIMS).split(".")[2]
        assert len(urlsafe_b64decode(signature + "==")) == 64


def test_a_changed_token_is_not_verified(signers: TokenSignerHarness) -> None:
    header, _, signature = signers.signer.sign(CLAIMS).split(".")
    other = urlsafe_b64encode(b'{"sub":"other"}').rstrip(b"=").decode()
    with pytest.raises(jwt.InvalidSignatureError):
        verified(f"{header}.{other}.{signature}", signers.signer.jwks())


def test_the_published_keys_are_public_and_named_by_their_thumbprint(
    signers: TokenSignerHarness,
) -> None:
    for key in signers.signer.jwks()["keys"]:
        assert key.keys() == {"kty", "crv", "x", "y", "alg", "use", "kid"}
        assert (key["kty"], key["crv"], key["alg"], key["use"]) == ("EC", "P-256", "ES256", "sig")
        required = {name: key[name] for name in ("crv", "kty", "x", "y")}
        digest = hashlib.sha256(json.dumps(required, separators=(",", ":")).encode()).digest()
        assert key["kid"] == urlsafe_b64encode(digest).rstrip(b"=").decode()


def test_rotation_signs_anew_and_keeps_old_tokens_valid(signers: TokenSignerHarness) -> None:
    tokens = [signers.signer.sign(CLAIMS)]
    for _ in range(3):
        signers.rotate()
        tokens.append(signers.signer.sign(CLAIMS))
    assert len({jwt.get_unverified_header(token)["kid"] for token in tokens}) == 4
    for signer in (signers.signer, signers.another()):
        keys = signer.jwks()
        assert len(keys["keys"]) == 4
        assert keys["keys"][0]["kid"] == jwt.get_unverified_header(tokens[-1])["kid"]
        for token in tokens:
            assert verified(token, keys) == CLAIMS


def test_a_rotation_reaches_those_who_had_the_key_before(signers: TokenSignerHarness) -> None:
    other = signers.another()
    before = other.sign(CLAIMS)
    signers.rotate()
    assert jwt.get_unverified_header(other.sign(CLAIMS)) != jwt.get_unverified_header(before)
    assert verified(signers.signer.sign(CLAIMS), other.jwks()) == CLAIMS


def test_all_first_users_agree_on_one_key(signers: TokenSignerHarness) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: signers.another().jwks()["keys"][0]["kid"], range(8)))
    assert len(set(found)) == 1
