"""What an upstream is: an address, how its key is given, and how much of it one worker may take."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trace_core.kernel.errors import Invalid

UPSTREAM_SUFFIX = "_UPSTREAM"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_MEBIBYTE = 1024 * 1024
_KEY = "{key}"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Limits(_Strict):
    """How much of an upstream one worker process takes, all its tasks together."""

    requests_per_second: Annotated[float, Field(gt=0, le=100_000, strict=False)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=1000)] = 32
    response_bytes: Annotated[int, Field(ge=1024, le=1024 * _MEBIBYTE)] = 64 * _MEBIBYTE
    request_bytes: Annotated[int, Field(ge=1024, le=64 * _MEBIBYTE)] = 8 * _MEBIBYTE
    timeout_seconds: Annotated[float, Field(gt=0, le=300, strict=False)] = 30.0
    """For one try."""
    retries: Annotated[int, Field(ge=0, le=20)] = 5
    retry_seconds: Annotated[float, Field(gt=0, le=60, strict=False)] = 0.25
    """Nominal wait before the first retry; it doubles with each further one."""
    deadline_seconds: Annotated[float, Field(gt=0, le=900, strict=False)] = 60.0
    """For one request with all its retries."""


class Upstream(_Strict):
    """One provider. `{key}` stands in the address or in one header's value, or nowhere."""

    # What a request cannot carry is refused here: later, an error would show it with the key in it.
    url: Annotated[str, Field(max_length=2000, pattern=r"^[\x21-\x7e]+$")]
    header: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,63}$")] | None = None
    value: Annotated[str, Field(max_length=500, pattern=r"^[\x20-\x7e]*$")] = _KEY
    allow_private: bool = False
    """Whether it may be on this machine or in a private network."""
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _is_an_address(self) -> Upstream:
        try:
            parts = urlsplit(self.url)
            is_one = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            # Its words hold the address.
            is_one = False
        if not is_one:
            raise ValueError("url must be an http or https address")
        if _KEY in (parts.netloc or ""):
            raise ValueError("a key belongs in the path, the query or a header, not in the host")
        if parts.username or parts.password or parts.fragment:
            raise ValueError("url must have no user, no password and no fragment")
        if parts.scheme == "http" and self.needs_key and not self.allow_private:
            raise ValueError("a key is sent over https only")
        if self.header and _KEY not in self.value:
            raise ValueError("value must contain {key}")
        if self.header and self.header.lower() in _OURS:
            raise ValueError(f"the header {self.header} is set by the gateway itself")
        return self

    @property
    def needs_key(self) -> bool:
        return _KEY in self.url or self.header is not None

    def target(self, key: str) -> str:
        """Path and query, with the key in it."""
        parts = urlsplit(self.url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return target.replace(_KEY, quote(key, safe=""))

    def headers(self, key: str) -> dict[str, str]:
        return {self.header: self.value.replace(_KEY, key)} if self.header else {}


_OURS = ("host", "connection", "content-length", "content-type", "transfer-encoding")


@dataclass(frozen=True)
class Wanted:
    """What a slot's environment asks for: `RPC_UPSTREAM` gives `RPC_URL` and takes `RPC_KEY`."""

    variable: str
    upstream: str

    @property
    def prefix(self) -> str:
        return self.variable.removesuffix(UPSTREAM_SUFFIX)

    @property
    def url_variable(self) -> str:
        return f"{self.prefix}_URL"

    @property
    def key_variable(self) -> str:
        return f"{self.prefix}_KEY"


def wanted(env: Mapping[str, str]) -> list[Wanted]:
    return [
        Wanted(variable, env[variable])
        for variable in sorted(env)
        if variable.endswith(UPSTREAM_SUFFIX) and variable != UPSTREAM_SUFFIX
    ]


def read_upstreams(text: str | None) -> dict[str, Upstream]:
    """From JSON, or from the file of that name. What is wrong is said without the values."""
    if not text:
        return {}
    if not text.lstrip().startswith("{"):
        try:
            text = Path(text).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid(f"the file of upstreams cannot be read: {type(error).__name__}") from None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise Invalid("upstreams are a JSON object: name -> {url, header, limits}") from None
    if not isinstance(fields, dict):
        raise Invalid("upstreams are a JSON object: name -> {url, header, limits}")
    return {name: _upstream(name, each) for name, each in fields.items()}


def _upstream(name: str, fields: object) -> Upstream:
    if not _NAME.fullmatch(name):
        raise Invalid(f"an upstream's name must match {_NAME.pattern}")
    try:
        return Upstream.model_validate(fields)
    except ValidationError as error:
        # Without the values: somebody may have written the key itself into the address.
        raise Invalid(f"upstream {name}: {_problems(error)}") from None


def _problems(error: ValidationError) -> str:
    found = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in found)


def known(upstreams: Iterable[str]) -> str:
    return ", ".join(sorted(upstreams)) or "none"
