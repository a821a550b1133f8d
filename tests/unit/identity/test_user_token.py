"""User tokens: what the issuer signed for us is believed, and nothing else is."""

from __future__ import annotations

import json
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.manual_clock import START, ManualClock
from tests.unit.identity.forgeries import DAY, Forge
from tests.unit.identity.issuers import Keys, Private, ec_key, jwk, rsa_key
from trace_core.identity.issuer_keys import IssuerKeys
from trace_core.identity.user_token import Subject, UserTokens
from trace_core.kernel.errors import Unauthenticated, Unavailable

ISSUER, AUDIENCE = "https://login.example", "trace"
NOW = int(START.timestamp())
KEYS: dict[str, Private] = {"r1": rsa_key(1), "e1": ec_key(1), "e2": ec_key(2)}


def verifier(keys: Keys, clock: ManualClock | None = None) -> UserTokens:
    clock = clock or ManualClock()
    return UserTokens(IssuerKeys(keys, clock), clock, issuer=ISSUER, audience=AUDIENCE)


def forge(kid: str) -> Forge:
    algorithm = "RS256" if kid.startswith("r") else "ES256"
    others = {name: key for name, key in KEYS.items() if name != kid}
    return Forge(KEYS[kid], kid, algorithm, NOW, ISSUER, AUDIENCE, "ada", others)


ALL = Keys(*(jwk(key, kid) for kid, key in KEYS.items()))
FORGED = [(kid, name, token) for kid in ("r1", "e1") for name, token in forge(kid).forged()]
ADA = Subject(ISSUER, "ada")


@pytest.mark.parametrize("kid", KEYS)
def test_a_token_of_the_issuer_names_its_subject(kid: str) -> None:
    assert verifier(ALL).verify(forge(kid).good()) == ADA


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": ["other", AUDIENCE]},
        {"exp": NOW + DAY},
        {"iat": NOW + 30, "nbf": NOW + 30},
        {"email": "ada@login.example", "groups": ["x"], "auth_time": 1.5},
    ],
    ids=str,
)
def test_what_issuers_do_is_accepted(changed: dict[str, Any]) -> None:
    assert verifier(ALL).verify(forge("r1").good(**changed)) == ADA
    assert verifier(ALL).verify(forge("r1").without("nbf")) == ADA
    assert verifier(ALL).verify(forge("r1").headed(typ="at+jwt", x5t="abc")) == ADA


def test_there_are_more_than_sixty_forgeries_of_each_kind_of_key() -> None:
    for kid in ("r1", "e1"):
        assert len({name for each, name, _ in FORGED if each == kid}) >= 60


# The subject without an account is the org's business: `members` refuses it, and the wall says so.
@pytest.mark.parametrize(
    ("kid", "name", "token"),
    [each for each in FORGED if "without an account" not in each[1]],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_forged_token_is_refused_without_a_reason(kid: str, name: str, token: str) -> None:
    with pytest.raises(Unauthenticated) as caught:
        verifier(ALL).verify(token)
    assert json.dumps(caught.value.body()) == json.dumps(Unauthenticated().body())
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("why", "key"),
    [
        ("for encryption", jwk(rsa_key(1), "r1", use="enc")),
        ("of another algorithm", jwk(rsa_key(1), "r1", alg="RS512")),
        ("for signing only", jwk(rsa_key(1), "r1", key_ops=["sign"])),
        ("too short", jwk(rsa_key(3, 1024), "r1")),
        ("on another curve", jwk(ec_key(4, ec.SECP384R1), "e1", alg="ES256")),
        ("symmetric", {"kty": "oct", "k": "c2VjcmV0", "kid": "r1"}),
        ("without its numbers", {"kty": "RSA", "kid": "r1"}),
        ("with numbers that are none", {"kty": "RSA", "kid": "r1", "n": "!", "e": 5}),
        ("without an id", {k: v for k, v in jwk(rsa_key(1), "r1").items() if k != "kid"}),
        ("that is a text", "key"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_key_that_does_not_fit_verifies_nothing(why: str, key: Any) -> None:
    keys = Keys(jwk(ec_key(7), "some-good-key"), key)
    token = forge("e1").good() if "curve" in why else forge("r1").good()
    with pytest.raises(Unauthenticated):
        verifier(keys).verify(token)


def test_keys_are_fetched_once_and_again_when_they_are_old() -> None:
    keys, clock = Keys(jwk(rsa_key(1), "r1")), ManualClock()
    tokens = verifier(keys, clock)
    for _ in range(50):
        tokens.verify(forge("r1").good(exp=NOW + DAY))
    assert keys.asked == 1
    clock.advance(timedelta(minutes=10))
    tokens.verify(forge("r1").good(exp=NOW + DAY))
    assert keys.asked == 2


def test_a_new_key_is_found_and_a_withdrawn_one_forgotten() -> None:
    keys, clock = Keys(jwk(rsa_key(1), "r1")), ManualClock()
    tokens = verifier(keys, clock)
    tokens.verify(forge("r1").good())
    keys.document = {"keys": [jwk(ec_key(1), "e1")]}
    clock.advance(timedelta(seconds=30))
    assert tokens.verify(forge("e1").good()) == ADA
    with pytest.raises(Unauthenticated):
        tokens.verify(forge("r1").good())


def test_unknown_key_ids_do_not_make_us_fetch_more_than_once_in_a_while() -> None:
    keys, clock = Keys(jwk(rsa_key(1), "r1")), ManualClock()
    tokens = verifier(keys, clock)
    tokens.verify(forge("r1").good())
    for second in range(60):
        for number in range(20):
            with pytest.raises(Unauthenticated):
                tokens.verify(forge("r1").headed(kid=f"guess-{second}-{number}"))
        clock.advance(timedelta(seconds=1))
    assert keys.asked == 2


def test_keys_serve_for_an_hour_while_the_issuer_is_away_and_no_longer() -> None:
    keys, clock = Keys(jwk(rsa_key(1), "r1")), ManualClock()
    tokens = verifier(keys, clock)
    good = forge("r1").good(exp=NOW + DAY)
    tokens.verify(good)
    keys.away = True
    clock.advance(timedelta(minutes=59, seconds=59))
    assert tokens.verify(good) == ADA
    clock.advance(timedelta(seconds=1))
    with pytest.raises(Unavailable):
        tokens.verify(good)
    keys.away = False
    clock.advance(timedelta(seconds=30))
    assert tokens.verify(good) == ADA


def test_without_any_keys_nobody_can_tell_and_the_issuer_is_not_asked_for_each_request() -> None:
    keys, clock = Keys(), ManualClock()
    keys.away = True
    tokens = verifier(keys, clock)
    for _ in range(20):
        with pytest.raises(Unavailable):
            tokens.verify(forge("r1").good())
    assert keys.asked == 1


def test_an_issuer_that_suddenly_has_no_keys_is_taken_for_broken() -> None:
    keys, clock = Keys(jwk(rsa_key(1), "r1")), ManualClock()
    tokens = verifier(keys, clock)
    good = forge("r1").good(exp=NOW + DAY)
    tokens.verify(good)
    for document in ({"keys": []}, {}, {"keys": "none"}, {"keys": [None]}):
        keys.document = document
        clock.advance(timedelta(minutes=10))
        assert tokens.verify(good) == ADA


def test_many_threads_that_need_keys_at_once_make_one_fetch() -> None:
    class Slow(Keys):
        def fetch(self) -> dict[str, Any]:
            time.sleep(0.05)
            return super().fetch()

    keys, found = Slow(jwk(rsa_key(1), "r1")), []
    tokens = verifier(keys)
    threads = [
        threading.Thread(target=lambda: found.append(tokens.verify(forge("r1").good())))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, keys.asked) == ([ADA] * 16, 1)
