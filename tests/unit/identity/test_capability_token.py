"""Capability tokens: what was issued is verified, and nothing else is."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import jwt
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tests.manual_clock import START, ManualClock
from trace_core.adapters.lite.key_file import KeyFileSigner
from trace_core.identity.capability_token import (
    CapabilityTokens,
    InputPin,
    TaskGrant,
    token_expiry,
)
from trace_core.kernel.errors import Invalid, TooLarge, Unauthenticated
from trace_core.kernel.ids import DatasetVersion, JobId, LeaseToken, OrgId, TaskId

ISSUER = "https://trace.example"
NOW = int(START.timestamp())
VERSION = "01890000-0000-7000-8000-000000000005"
GRANT = TaskGrant(
    org_id=OrgId(UUID("01890000-0000-7000-8000-000000000001")),
    task_id=TaskId(UUID("01890000-0000-7000-8000-000000000002")),
    attempt=1,
    lease_token=LeaseToken(UUID("01890000-0000-4000-8000-000000000003")),
    job_id=JobId(UUID("01890000-0000-7000-8000-000000000004")),
    inputs=(InputPin(DatasetVersion(UUID(VERSION)), 17),),
    read_prefixes=("datasets/blocks/",),
    write_prefixes=("staging/task/1-1/0/",),
    expires_at=START + timedelta(minutes=20),
)
CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "aud": "trace-task",
    "sub": str(GRANT.task_id),
    "iat": NOW,
    "nbf": NOW,
    "exp": NOW + 1200,
    "org": str(GRANT.org_id),
    "job": str(GRANT.job_id),
    "attempt": 1,
    "lease": str(GRANT.lease_token),
    "inputs": [[VERSION, 17]],
    "read": ["datasets/blocks/"],
    "write": ["staging/task/1-1/0/"],
}


class Forge:
    """Signs anything with the platform's own key, so that only the checks stand in the way."""

    def __init__(self, folder: Path) -> None:
        self.signer = KeyFileSigner(folder / "task.pem")
        self.clock = ManualClock()
        self.tokens = CapabilityTokens(self.signer, self.clock, ISSUER)
        self.header = {"alg": "ES256", "typ": "JWT", "kid": self.signer.kid}
        pem = (folder / "task.pem").read_bytes()
        self.key = serialization.load_pem_private_key(pem, password=None)

    def token(self, claims: object, header: object | None = None, key: Any = None) -> str:
        header_text = json.dumps(self.header if header is None else header)
        return self.raw(header_text.encode(), json.dumps(claims).encode(), key)

    def raw(self, header: bytes, claims: bytes, key: Any = None) -> str:
        signed = f"{encode(header)}.{encode(claims)}"
        private = key or self.key
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        der = private.sign(signed.encode(), ec.ECDSA(hashes.SHA256()))
        r, s = decode_dss_signature(der)
        return f"{signed}.{encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    return Forge(tmp_path)


def test_an_issued_token_says_what_was_granted(forge: Forge) -> None:
    assert forge.tokens.verify(forge.tokens.issue(GRANT)) == GRANT


def test_an_issued_token_has_the_claims_of_the_contract(forge: Forge) -> None:
    token = forge.tokens.issue(GRANT)
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims == CLAIMS


def test_the_forge_makes_valid_tokens(forge: Forge) -> None:
    assert forge.tokens.verify(forge.token(CLAIMS)) == GRANT


def test_a_grant_without_inputs_and_prefixes_is_kept(forge: Forge) -> None:
    empty = replace(GRANT, inputs=(), read_prefixes=(), write_prefixes=())
    assert forge.tokens.verify(forge.tokens.issue(empty)) == empty


def test_a_token_lives_until_it_expires_and_no_longer(forge: Forge) -> None:
    token = forge.tokens.issue(GRANT)
    forge.clock.advance(timedelta(minutes=20) - timedelta(microseconds=1))
    forge.tokens.verify(token)
    forge.clock.advance(timedelta(microseconds=1))
    with pytest.raises(Unauthenticated):
        forge.tokens.verify(token)


def test_a_token_of_a_retired_key_stays_valid(forge: Forge) -> None:
    token = forge.tokens.issue(GRANT)
    forge.signer.rotate()
    assert forge.tokens.verify(token) == GRANT
    assert forge.tokens.verify(forge.tokens.issue(GRANT)) == GRANT


def test_a_token_of_a_day_is_the_longest(forge: Forge) -> None:
    day = timedelta(hours=24)
    longest = replace(GRANT, expires_at=START + day)
    assert forge.tokens.verify(forge.tokens.issue(longest)) == longest
    for expires_at in (START + day + timedelta(seconds=1), START, START - day):
        with pytest.raises(Invalid):
            forge.tokens.issue(replace(GRANT, expires_at=expires_at))


def test_a_grant_that_no_token_can_carry_is_refused(forge: Forge) -> None:
    wide = replace(GRANT, read_prefixes=tuple(f"datasets/{n:08}/" for n in range(1000)))
    with pytest.raises(TooLarge):
        forge.tokens.issue(wide)


@pytest.mark.parametrize(
    ("timeout", "lifetime"),
    [
        (timedelta(seconds=900), timedelta(seconds=1200)),
        (timedelta(hours=23, minutes=55), timedelta(hours=24)),
        (timedelta(hours=48), timedelta(hours=24)),
    ],
)
def test_the_lifetime_is_the_timeout_and_a_grace_up_to_a_day(
    timeout: timedelta, lifetime: timedelta
) -> None:
    assert token_expiry(START, timeout) == START + lifetime
    late = START + timedelta(microseconds=999_999)
    assert token_expiry(late, timeout) == START + lifetime


def test_an_issuer_slightly_ahead_is_forgiven(forge: Forge) -> None:
    token = forge.tokens.issue(GRANT)
    forge.clock.advance(timedelta(seconds=-30))
    forge.tokens.verify(token)
    forge.clock.advance(timedelta(seconds=-1))
    with pytest.raises(Unauthenticated):
        forge.tokens.verify(token)


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in CLAIMS.items() if key != name}


WRONG_CLAIMS: dict[str, object] = {
    **{f"no {name}": without(name) for name in CLAIMS},
    **{f"null {name}": {**CLAIMS, name: None} for name in CLAIMS},
    "no claims": {},
    "a list": [CLAIMS],
    "a text": "claims",
    "an unknown claim": {**CLAIMS, "admin": True},
    "another issuer": {**CLAIMS, "iss": "https://evil.example"},
    "a list of issuers": {**CLAIMS, "iss": [ISSUER]},
    "another audience": {**CLAIMS, "aud": "trace-worker"},
    "a list of audiences": {**CLAIMS, "aud": ["trace-task", "other"]},
    "an empty subject": {**CLAIMS, "sub": ""},
    "a subject that is no id": {**CLAIMS, "sub": "root"},
    "a subject in capitals": {**CLAIMS, "sub": "01890000-0000-7000-8000-00000000000A"},
    "a subject in braces": {**CLAIMS, "sub": "{" + str(GRANT.task_id) + "}"},
    "a subject without hyphens": {**CLAIMS, "sub": GRANT.task_id.hex},
    "a subject with a newline": {**CLAIMS, "sub": f"{GRANT.task_id}\n"},
    "a number as subject": {**CLAIMS, "sub": 7},
    "exp as text": {**CLAIMS, "exp": str(NOW + 1200)},
    "exp as float": {**CLAIMS, "exp": NOW + 1200.5},
    "exp as true": {**CLAIMS, "exp": True},
    "exp passed": {**CLAIMS, "iat": NOW - 100, "nbf": NOW - 100, "exp": NOW - 1},
    "exp now": {**CLAIMS, "iat": NOW - 100, "nbf": NOW - 100, "exp": NOW},
    "exp negative": {**CLAIMS, "exp": -1},
    "exp beyond a day": {**CLAIMS, "exp": NOW + 86_401},
    "exp beyond all time": {**CLAIMS, "exp": 2**63, "iat": 2**63 - 10, "nbf": 2**63 - 10},
    "iat as text": {**CLAIMS, "iat": str(NOW)},
    "iat in the future": {**CLAIMS, "iat": NOW + 60, "nbf": NOW + 60},
    "iat long ago": {**CLAIMS, "iat": NOW - 86_400},
    "nbf as text": {**CLAIMS, "nbf": str(NOW)},
    "nbf in the future": {**CLAIMS, "nbf": NOW + 60},
    "nbf before iat": {**CLAIMS, "nbf": NOW - 1},
    "nbf after exp": {**CLAIMS, "nbf": NOW + 20, "exp": NOW + 10},
    "attempt as text": {**CLAIMS, "attempt": "1"},
    "attempt as true": {**CLAIMS, "attempt": True},
    "attempt negative": {**CLAIMS, "attempt": -1},
    "inputs as map": {**CLAIMS, "inputs": {VERSION: 17}},
    "an input without pin": {**CLAIMS, "inputs": [[VERSION]]},
    "an input with two pins": {**CLAIMS, "inputs": [[VERSION, 1, 2]]},
    "an input as text": {**CLAIMS, "inputs": [VERSION]},
    "an input that is no id": {**CLAIMS, "inputs": [["blocks", 17]]},
    "a pin as text": {**CLAIMS, "inputs": [[VERSION, "17"]]},
    "a pin below zero": {**CLAIMS, "inputs": [[VERSION, -1]]},
    "prefixes as text": {**CLAIMS, "read": "datasets/"},
    "an empty prefix": {**CLAIMS, "write": [""]},
    "a number as prefix": {**CLAIMS, "write": [1]},
}


@pytest.mark.parametrize("case", WRONG_CLAIMS)
def test_a_signed_token_with_wrong_claims_is_refused(forge: Forge, case: str) -> None:
    with pytest.raises(Unauthenticated):
        forge.tokens.verify(forge.token(WRONG_CLAIMS[case]))


WRONG_HEADERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "no kid": lambda header: {"alg": "ES256", "typ": "JWT"},
    "no typ": lambda header: {"alg": "ES256", "kid": header["kid"]},
    "no alg": lambda header: {"typ": "JWT", "kid": header["kid"]},
    "none": lambda header: {**header, "alg": "none"},
    "es384": lambda header: {**header, "alg": "ES384"},
    "hs256": lambda header: {**header, "alg": "HS256"},
    "small letters": lambda header: {**header, "alg": "es256"},
    "another type": lambda header: {**header, "typ": "at+jwt"},
    "type in small letters": lambda header: {**header, "typ": "jwt"},
    "an unknown key": lambda header: {**header, "kid": "A" * 43},
    "a path as key": lambda header: {**header, "kid": "../../dev/null"},
    "a list as key": lambda header: {**header, "kid": [header["kid"]]},
    "null as key": lambda header: {**header, "kid": None},
    "crit": lambda header: {**header, "crit": ["exp"]},
    "an unknown crit": lambda header: {**header, "crit": ["x"], "x": 1},
    "an empty crit": lambda header: {**header, "crit": []},
    "zip": lambda header: {**header, "zip": "DEF"},
    "b64": lambda header: {**header, "b64": False},
    "jku": lambda header: {**header, "jku": "https://evil.example/jwks"},
    "x5u": lambda header: {**header, "x5u": "https://evil.example/x"},
    "cty": lambda header: {**header, "cty": "JWT"},
    "a list": lambda header: [header],
    "a text": lambda header: "header",
    "null": lambda header: 0,
}


@pytest.mark.parametrize("case", WRONG_HEADERS)
def test_a_signed_token_with_a_wrong_header_is_refused(forge: Forge, case: str) -> None:
    with pytest.raises(Unauthenticated):
        forge.tokens.verify(forge.token(CLAIMS, WRONG_HEADERS[case](forge.header)))


def test_a_key_in_the_header_is_not_trusted(forge: Forge) -> None:
    stranger = ec.generate_private_key(ec.SECP256R1())
    jwk = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(stranger.public_key()))
    for header in ({**forge.header, "jwk": jwk}, forge.header):
        with pytest.raises(Unauthenticated):
            forge.tokens.verify(forge.token(CLAIMS, header, stranger))


def test_a_public_key_as_shared_secret_is_not_trusted(forge: Forge) -> None:
    secret = json.dumps(forge.signer.jwks()["keys"][0]).encode()
    header = encode(json.dumps({**forge.header, "alg": "HS256"}).encode())
    signed = f"{header}.{encode(json.dumps(CLAIMS).encode())}"
    signature = encode(hmac.new(secret, signed.encode(), hashlib.sha256).digest())
    with pytest.raises(Unauthenticated):
        forge.tokens.verify(f"{signed}.{signature}")


RAW_CLAIMS: dict[str, bytes] = {
    "a repeated claim": json.dumps(CLAIMS)[:-1].encode() + b', "attempt": 2}',
    "a repeated claim of equal value": json.dumps(CLAIMS)[:-1].encode() + b', "attempt": 1}',
    "a claim repeated by escape": json.dumps(CLAIMS)[:-1].encode() + b', "\\u0061ttempt": 1}',
    "nan": json.dumps({**CLAIMS, "exp": float("nan")}).encode(),
    "infinity": json.dumps({**CLAIMS, "exp": float("inf")}).encode(),
    "a number of many digits": json.dumps(CLAIMS).replace(str(NOW + 1200), "9" * 5000).encode(),
    "an exponent": json.dumps(CLAIMS).replace(str(NOW + 1200), "1e10").encode(),
    "bytes that are no text": b"\xff" + json.dumps(CLAIMS).encode(),
    "a byte order mark": b"\xef\xbb\xbf" + json.dumps(CLAIMS).encode(),
    "utf-16": json.dumps(CLAIMS).encode("utf-16"),
    "something after the end": json.dumps(CLAIMS).encode() + b"{}",
    "deep nesting": b'{"a":' * 1500 + b"1" + b"}" * 1500,
    "deep lists": b"[" * 5000,
    "nothing": b" ",
}


@pytest.mark.parametrize("case", RAW_CLAIMS)
def test_a_signed_token_of_malformed_json_is_refused(forge: Forge, case: str) -> None:
    with pytest.raises(Unauthenticated):
        forge.tokens.verify(forge.raw(json.dumps(forge.header).encode(), RAW_CLAIMS[case]))


def test_a_repeated_header_field_is_refused(forge: Forge) -> None:
    header = json.dumps(forge.header)[:-1].encode() + b', "alg": "ES256"}'
    with pytest.raises(Unauthenticated):
        forge.tokens.verify(forge.raw(header, json.dumps(CLAIMS).encode()))


MALFORMED: dict[str, Callable[[str], object]] = {
    "nothing": lambda token: "",
    "no token": lambda token: None,
    "bytes": lambda token: token.encode(),
    "a number": lambda token: 7,
    "two parts": lambda token: token.rpartition(".")[0],
    "four parts": lambda token: token + ".x",
    "no signature": lambda token: token.rpartition(".")[0] + ".",
    "a short signature": lambda token: token[:-1],
    "a long signature": lambda token: token + "A",
    "a zero signature": lambda token: token.rpartition(".")[0] + "." + "A" * 86,
    "a newline after": lambda token: token + "\n",
    "a blank before": lambda token: " " + token,
    "padding": lambda token: token + "==",
    "the scheme before": lambda token: "Bearer " + token,
    "letters of plain base64": lambda token: token.replace("_", "/").replace("-", "+") + "/",
    "letters that are not ascii": lambda token: token[:-1] + "\u0661",
    "an empty header": lambda token: "." + token.partition(".")[2],
    "an empty body": lambda token: token.split(".")[0] + ".." + token.split(".")[2],
    "parts in another order": lambda token: ".".join(reversed(token.split("."))),
    "unused bits set": lambda token: token[:-1] + chr(ord(token[-1]) + 1),
    "a changed body": lambda token: token[:200] + ("A" if token[200] != "A" else "B") + token[201:],
    "a megabyte": lambda token: token + "A" * 2**20,
    "dots": lambda token: "." * 5000,
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_token_is_refused(forge: Forge, case: str) -> None:
    token = MALFORMED[case](forge.token(CLAIMS))
    with pytest.raises(Unauthenticated):
        forge.tokens.verify(token)  # type: ignore[arg-type]


def test_a_valid_token_over_the_size_limit_is_refused(forge: Forge) -> None:
    read = [f"datasets/{number:08}/" for number in range(800)]
    token = forge.token({**CLAIMS, "read": read})
    assert len(token) > 16 * 1024
    with pytest.raises(Unauthenticated):
        forge.tokens.verify(token)


def test_the_refusal_does_not_say_why(forge: Forge) -> None:
    bodies = set()
    for token in ("", forge.token({**CLAIMS, "exp": 0}), forge.token(CLAIMS, {"alg": "none"})):
        with pytest.raises(Unauthenticated) as caught:
            forge.tokens.verify(token)
        bodies.add(json.dumps(caught.value.body()))
        assert caught.value.__suppress_context__
    assert bodies == {json.dumps(Unauthenticated().body())}


def test_another_platforms_token_is_refused(forge: Forge, tmp_path: Path) -> None:
    stranger = CapabilityTokens(KeyFileSigner(tmp_path / "other.pem"), forge.clock, ISSUER)
    with pytest.raises(Unauthenticated):
        forge.tokens.verify(stranger.issue(GRANT))


def test_the_expiry_comes_back_in_utc(forge: Forge) -> None:
    expires_at = forge.tokens.verify(forge.tokens.issue(GRANT)).expires_at
    assert expires_at == datetime.fromtimestamp(NOW + 1200, UTC)
    assert expires_at.tzinfo is UTC
