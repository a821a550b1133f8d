"""The issuer's public keys, remembered: fetched seldom, by one thread, whatever tokens say."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from trace_core.identity.strict_jwt import Refused
from trace_core.kernel import limits
from trace_core.kernel.errors import Unavailable
from trace_core.ports.clock import Clock
from trace_core.ports.key_source import KeySource

logger = logging.getLogger(__name__)

ALGORITHMS = {"RS256": "RSA", "ES256": "EC"}
"""Each with its type of key. Nothing symmetric: a public key must not serve as a secret."""
_PUBLIC = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y")}
_KEYS_MAX = 100
_RSA_BITS = range(2048, 8193)


@dataclass(frozen=True)
class _Fetched:
    keys: Mapping[tuple[str, str], jwt.PyJWK]
    at: datetime


class IssuerKeys:
    """Answers from memory. A fetch happens at the first use, when the memory is old, and for a key
    that is not known; never sooner than a floor after the last one, so that forged tokens cannot
    make us fetch.
    """

    def __init__(self, source: KeySource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._fetching = threading.Lock()
        self._fetched: _Fetched | None = None
        self._tried_at: datetime | None = None

    def key(self, kid: str, algorithm: str) -> jwt.PyJWK:
        """Raises `Refused` for a key the issuer does not have, `Unavailable` if nobody can tell."""
        now = self._clock.now()
        fetched = self._fetched
        if fetched is None:
            self._fetch(now, wait=True)
        elif now - fetched.at >= limits.ISSUER_KEYS_TTL:
            # Whoever comes while another fetches goes on with what there is.
            self._fetch(now, wait=(kid, algorithm) not in fetched.keys)
        elif (kid, algorithm) not in fetched.keys:
            self._fetch(now, wait=True)
        fetched = self._fetched
        if fetched is None or now - fetched.at >= limits.ISSUER_KEYS_STALE_MAX:
            raise Unavailable("The keys of the users' issuer cannot be fetched.")
        key = fetched.keys.get((kid, algorithm))
        if key is None:
            raise Refused
        return key

    def _fetch(self, now: datetime, *, wait: bool) -> None:
        if not self._fetching.acquire(blocking=wait):
            return
        try:
            # Asked under the lock: whoever waited for another's fetch makes none of its own.
            if not self._too_soon(now):
                self._tried_at = now
                self._fetched = _Fetched(_usable(self._source.fetch()), now)
        except Unavailable:
            logger.warning("the keys of the users' issuer cannot be fetched")
        finally:
            self._fetching.release()

    def _too_soon(self, now: datetime) -> bool:
        tried_at = self._tried_at
        return tried_at is not None and now - tried_at < limits.ISSUER_KEYS_FLOOR


def _usable(document: Mapping[str, Any]) -> dict[tuple[str, str], jwt.PyJWK]:
    """The keys that may verify a user token, by id and algorithm; others are passed over."""
    found: dict[tuple[str, str], jwt.PyJWK] = {}
    listed = document.get("keys")
    for each in listed[:_KEYS_MAX] if isinstance(listed, list) else ():
        for algorithm, kind in ALGORITHMS.items():
            key = _key(each, algorithm, kind) if isinstance(each, dict) else None
            if key is not None:
                found.setdefault((each["kid"], algorithm), key)
    if not found:
        # An answer without a single key is a broken issuer, not a reason to forget all keys.
        raise Unavailable("The users' issuer has no usable key.")
    return found


def _key(jwk: Mapping[str, Any], algorithm: str, kind: str) -> jwt.PyJWK | None:
    if jwk.get("kty") != kind or type(jwk.get("kid")) is not str or not jwk["kid"]:
        return None
    if jwk.get("use", "sig") != "sig" or jwk.get("alg", algorithm) != algorithm:
        return None
    if "verify" not in (jwk.get("key_ops") or ["verify"]):
        return None
    try:
        # The public members alone: whatever else an issuer writes there decides nothing.
        key = jwt.PyJWK({name: jwk[name] for name in _PUBLIC[kind]}, algorithm=algorithm)
    except (jwt.PyJWTError, KeyError, ValueError, TypeError):
        return None
    if isinstance(key.key, rsa.RSAPublicKey):
        return key if key.key.key_size in _RSA_BITS else None
    if isinstance(key.key, ec.EllipticCurvePublicKey):
        return key if isinstance(key.key.curve, ec.SECP256R1) else None
    return None
