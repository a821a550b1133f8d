"""Signatures of inbound calls, by Standard Webhooks: HMAC-SHA256 over id, timestamp and body."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from trace_core.kernel import limits
from trace_core.kernel.errors import Unauthenticated

_PREFIX = "whsec_"
# No dot: it would let one signed text be read as another id, timestamp and body.
_ID = re.compile(r"[!-\-/-~]{1,128}")
_TIMESTAMP = re.compile(r"[1-9][0-9]{0,11}")
_VERSION = "v1,"
_SIGNATURES_MAX = 10
_HEADER_MAX = 4096
HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


@dataclass(frozen=True)
class Signed:
    """The headers of a call, in the form that they must have; nothing is proven yet."""

    event_key: str
    timestamp: str
    signatures: tuple[str, ...]


def read(headers: Mapping[str, str], now: datetime) -> Signed:
    """Raises `Unauthenticated`; says nothing about why."""
    event_key, timestamp, given = (headers.get(name, "") for name in HEADERS)
    if (
        _ID.fullmatch(event_key) is None
        or _TIMESTAMP.fullmatch(timestamp) is None
        or len(given) > _HEADER_MAX
        or abs(now.timestamp() - int(timestamp)) > limits.WEBHOOK_TOLERANCE.total_seconds()
    ):
        raise Unauthenticated
    signatures = given.split(" ")
    if len(signatures) > _SIGNATURES_MAX:
        raise Unauthenticated
    return Signed(
        event_key,
        timestamp,
        tuple(each.removeprefix(_VERSION) for each in signatures if each.startswith(_VERSION)),
    )


def verify(signed: Signed, body: bytes, secrets: Sequence[str]) -> None:
    """One signature by one secret is enough; raises `Unauthenticated`."""
    good = False
    for secret in secrets:
        expected = sign(secret, signed.event_key, signed.timestamp, body)
        for given in signed.signatures:
            # All are compared, however early one fits: the time taken tells nothing.
            good |= hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))
    if not good:
        raise Unauthenticated


def sign(secret: str, event_key: str, timestamp: str, body: bytes) -> str:
    content = f"{event_key}.{timestamp}.".encode() + body
    return b64encode(hmac.new(_key(secret), content, hashlib.sha256).digest()).decode()


def new_secret(data: bytes) -> str:
    return _PREFIX + b64encode(data).decode()


def _key(secret: str) -> bytes:
    try:
        return b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise Unauthenticated from None
