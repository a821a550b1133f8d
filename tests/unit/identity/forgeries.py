"""Tokens that must be refused, each signed by the issuer's own key unless it says otherwise.

One table for the verifier alone and for the wall around all routes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.unit.identity import issuers
from tests.unit.identity.issuers import Private, encode

DAY = 24 * 3600
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@dataclass(frozen=True)
class Forge:
    """Makes a good token, and every bad one from it."""

    key: Private
    kid: str
    algorithm: str
    now: int
    issuer: str
    audience: str
    subject: str
    other_keys: dict[str, Private] = field(default_factory=dict)
    """Keys of the same issuer under other ids."""
    more: dict[str, Any] = field(default_factory=dict)
    """What a good token says beside who and when."""

    @property
    def header(self) -> dict[str, Any]:
        return {"alg": self.algorithm, "typ": "JWT", "kid": self.kid}

    @property
    def claims(self) -> dict[str, Any]:
        return {
            "iss": self.issuer,
            "aud": self.audience,
            "sub": self.subject,
            "iat": self.now,
            "nbf": self.now,
            "exp": self.now + 600,
            **self.more,
        }

    def good(self, **claims: Any) -> str:
        return issuers.token(self.key, self.header, {**self.claims, **claims})

    def without(self, name: str) -> str:
        left = {key: value for key, value in self.claims.items() if key != name}
        return issuers.token(self.key, self.header, left)

    def headed(self, **header: Any) -> str:
        return issuers.token(self.key, {**self.header, **header}, self.claims)

    def forged(self) -> Iterator[tuple[str, str]]:
        """Name and token."""
        yield from self._claims()
        yield from self._times()
        yield from self._headers()
        yield from self._keys()
        yield from self._texts()
        yield from self._shapes()

    def _claims(self) -> Iterator[tuple[str, str]]:
        for name in ("iss", "aud", "sub", "iat", "exp", *self.more):
            yield f"without {name}", self.without(name)
        for name in self.claims:
            yield f"{name} is null", self.good(**{name: None})
            yield f"{name} is an object", self.good(**{name: {}})
        yield "another issuer", self.good(iss="https://evil.example")
        yield "the issuer with a slash more", self.good(iss=self.issuer + "/")
        yield "the issuer in capitals", self.good(iss=self.issuer.upper())
        yield "a list of issuers", self.good(iss=[self.issuer])
        yield "another audience", self.good(aud="other")
        yield "an audience that begins alike", self.good(aud=self.audience + "x")
        yield "no audience in the list", self.good(aud=[])
        yield "a list of other audiences", self.good(aud=["a", "b"])
        yield "a list with a number", self.good(aud=[self.audience, 1])
        yield "a list in the list", self.good(aud=[[self.audience]])
        yield "too many audiences", self.good(aud=[self.audience] * 21)
        yield "an empty subject", self.good(sub="")
        yield "a blank subject", self.good(sub=" ")
        yield "a subject with a blank behind", self.good(sub=self.subject + " ")
        yield "a subject with a NUL", self.good(sub=self.subject + "\0")
        yield "a subject with a line break", self.good(sub=self.subject + "\n")
        yield "a subject that is half a character", self.good(sub=self.subject + "\ud800")
        yield "a subject too long", self.good(sub="s" * 256)
        yield "a subject that is a number", self.good(sub=1)
        yield "a subject in a list", self.good(sub=[self.subject])
        yield "the subject of somebody without an account", self.good(sub="nobody-knows")

    def _times(self) -> Iterator[tuple[str, str]]:
        now = self.now
        yield "expired now", self.good(iat=now - 10, nbf=now - 10, exp=now)
        yield "expired long ago", self.good(iat=now - 100, nbf=now - 100, exp=now - 50)
        yield "issued in the future", self.good(iat=now + 31)
        yield "valid in the future", self.good(nbf=now + 31)
        yield "ends before it begins", self.good(nbf=now + 20, exp=now + 10)
        yield "a day and a second", self.good(exp=now + DAY + 1)
        yield "a year", self.good(exp=now + 365 * DAY)
        yield "ends never", self.good(exp=2**53)
        yield "an expiry in text", self.good(exp=str(now + 600))
        yield "an expiry with a fraction", self.good(exp=now + 600.5)
        yield "an expiry that is true", self.good(exp=True)
        yield "a negative time", self.good(iat=-1)
        yield "a time in milliseconds", self.good(exp=(now + 600) * 1000)
        yield "a time in text", self.good(iat=str(now))
        yield "a time in a list", self.good(nbf=[now])

    def _headers(self) -> Iterator[tuple[str, str]]:
        for name, value in {
            "crit": ["exp"],
            "zip": "DEF",
            "b64": False,
            "jku": "https://evil.example/jwks.json",
            "x5u": "https://evil.example/key.pem",
            "x5c": ["MIIB"],
            "jwk": issuers.jwk(issuers.ec_key(9), "evil"),
            "cty": "JWT",
            "enc": "A256GCM",
        }.items():
            yield f"a header with {name}", self.headed(**{name: value})
        yield "a type that is no token", self.headed(typ="JWE")
        yield "a type that is a number", self.headed(typ=1)
        yield "no key id", issuers.token(self.key, {"alg": self.algorithm}, self.claims)
        yield "a key id that is a number", self.headed(kid=1)
        yield "a key id that is empty", self.headed(kid="")
        yield "a key id that is a path", self.headed(kid="../../keys/issuer.pem")
        yield "a key id too long", self.headed(kid="k" * 400)
        yield "an unknown key id", self.headed(kid="unknown")
        for algorithm in ("none", "None", "NONE", "HS256", "RS384", "PS256", "ES384", "EdDSA", ""):
            yield f"algorithm {algorithm!r}", self.headed(alg=algorithm)
        yield "algorithm in a list", self.headed(alg=[self.algorithm])
        yield "algorithm in small letters", self.headed(alg=self.algorithm.lower())

    def _keys(self) -> Iterator[tuple[str, str]]:
        header, claims = json.dumps(self.header).encode(), json.dumps(self.claims).encode()
        stranger: Private = issuers.ec_key(8)
        if self.algorithm == "RS256":
            stranger = issuers.rsa_key(8)
        yield "signed by a stranger", issuers.raw(stranger, header, claims)
        other = "RS256" if self.algorithm == "ES256" else "ES256"
        yield "the other algorithm's name", self.headed(alg=other)
        for kid, key in self.other_keys.items():
            yield f"the id of {kid}, signed by another key", self.headed(kid=kid)
            yield f"signed by {kid} under another id", issuers.raw(key, header, claims)
        # The public key, known to all, as the secret of a symmetric algorithm.
        public = self.key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        symmetric = json.dumps({**self.header, "alg": "HS256"}).encode()
        signed = f"{encode(symmetric)}.{encode(claims)}"
        mac = hmac.new(public, signed.encode(), hashlib.sha256).digest()
        yield "HS256 over the public key", f"{signed}.{encode(mac)}"
        unsigned = f"{encode(header)}.{encode(claims)}"
        yield "a signature of zeros", f"{unsigned}.{encode(bytes(64))}"
        if isinstance(self.key, ec.EllipticCurvePrivateKey):
            der = issuers.sign(self.key, unsigned) + b"\0"
            yield "a signature with a byte more", f"{unsigned}.{encode(der)}"

    def _texts(self) -> Iterator[tuple[str, str]]:
        """JSON that parsers read differently."""
        header, claims = json.dumps(self.header), json.dumps(self.claims)
        for name, text in {
            "subject twice": claims[:-1] + ', "sub": "root"}',
            "expiry twice": '{"exp": 9999999999, ' + claims[1:],
            "a constant": claims[:-1] + ', "x": NaN}',
            "an infinity": claims[:-1] + ', "x": -Infinity}',
            "a list": f"[{claims}]",
            "text": '"claims"',
            "no JSON": "claims",
            "nothing": "{}",
            "brackets without end": "[" * 5000,
            "two documents": claims + claims,
        }.items():
            yield f"claims: {name}", issuers.raw(self.key, header.encode(), text.encode())
        for name, text in {
            "algorithm twice": header[:-1] + ', "alg": "none"}',
            "key id twice": header[:-1] + f', "kid": "{self.kid}"}}',
            "a list": f"[{header}]",
            "no JSON": "header",
            "brackets without end": "[" * 300,
        }.items():
            yield f"header: {name}", issuers.raw(self.key, text.encode(), claims.encode())
        utf16 = issuers.raw(self.key, header.encode(), claims.encode("utf-16"))
        yield "claims in another encoding", utf16
        yield "claims that are no text", issuers.raw(self.key, header.encode(), b"\xff\xfe{}")

    def _shapes(self) -> Iterator[tuple[str, str]]:
        token = self.good()
        head, body, signature = token.split(".")
        changes: dict[str, Callable[[], str]] = {
            "two parts": lambda: f"{head}.{body}",
            "no signature": lambda: f"{head}.{body}.",
            "four parts": lambda: f"{token}.{signature}",
            "five parts": lambda: f"{token}.{signature}.{signature}",
            "an empty header": lambda: f".{body}.{signature}",
            "an empty body": lambda: f"{head}..{signature}",
            "parts in another order": lambda: f"{body}.{head}.{signature}",
            "padding": lambda: token + "==",
            "plain base64": lambda: f"{head}.{body}.{'+/' + signature[2:]}",
            "a character more": lambda: token + "A",
            "a character less": lambda: token[:-1],
            "a changed signature": lambda: token[:-10] + ("A" * 10),
            "unused bits set": lambda: token[:-1] + _LETTERS[_LETTERS.index(token[-1]) + 1],
            "a changed body": lambda: f"{head}.{_flipped(body)}.{signature}",
            "a changed header": lambda: f"{_flipped(head)}.{body}.{signature}",
            "another token's signature": lambda: token[:-20] + self.good(jti="x")[-20:],
            "dots": lambda: "." * 100,
            "a short word": lambda: "x",
            "a long token": lambda: self.good(padding="x" * 16_000),
        }
        for name, change in changes.items():
            yield name, change()


def _flipped(part: str) -> str:
    middle = len(part) // 2
    other = "A" if part[middle] != "A" else "B"
    return part[:middle] + other + part[middle + 1 :]
