"""Profiles: where `trace --profile NAME` goes, and where its token comes from.

A file holds addresses and where tokens are found, never a token itself.
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from trace_core.adapters.lite.atomic_files import replace_file
from trace_core.adapters.lite.development_issuer import DevelopmentIssuer
from trace_core.adapters.lite.home import Home
from trace_core.adapters.lite.key_file import KeyFileSigner
from trace_core.adapters.lite.system_clock import SystemClock
from trace_core.kernel.errors import Conflict, Invalid, NotFound, Unavailable
from trace_core.settings import Settings

LITE = "lite"
"""The profile of this machine, which is always there."""
VARIABLE = "TRACE_PROFILES"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,16384}")
_HEADER = re.compile(r"^\s*\[([^\[\]]*)\]")
_COMMAND_SECONDS = 120
_LIFETIME = timedelta(hours=1)


class ProfileExists(Conflict):
    """There is a profile of that name already; remove it first."""

    code = "ProfileExists"


class TokenSource(Protocol):
    """Where a token comes from; its text says so, and never what the token is."""

    def read(self, org: str | None) -> str: ...


@dataclass(frozen=True)
class EnvToken:
    variable: str

    def __str__(self) -> str:
        return f"the variable {self.variable}"

    def read(self, _org: str | None) -> str:
        found = os.environ.get(self.variable)
        if not found:
            raise Invalid(f"No token: the variable {self.variable} is not set.")
        return found


@dataclass(frozen=True)
class FileToken:
    path: Path

    def __str__(self) -> str:
        return f"the file {self.path}"

    def read(self, _org: str | None) -> str:
        try:
            return self.path.expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid(f"No token: {self.path} cannot be read.") from error


@dataclass(frozen=True)
class CommandToken:
    command: tuple[str, ...]

    def __str__(self) -> str:
        return f"the command {self.command[0]}"

    def read(self, _org: str | None) -> str:
        try:
            done = subprocess.run(  # noqa: S603  the owner of the file chose it
                self.command, stdout=subprocess.PIPE, timeout=_COMMAND_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = type(error).__name__
            raise Invalid(f"No token: {self.command[0]} cannot be run ({reason}).") from None
        if done.returncode:
            raise Invalid(f"No token: {self.command[0]} ended with {done.returncode}.")
        return done.stdout.decode("utf-8", "replace")


@dataclass(frozen=True)
class LiteToken:
    """The development issuer of a home folder in which `trace dev` runs."""

    home: Path

    def __str__(self) -> str:
        return f"the development issuer in {self.home}"

    def read(self, org: str | None) -> str:
        settings = Settings.from_env()
        if settings.user_token is not None:
            return settings.user_token.get_secret_value()
        home = Home(self.home)
        running = home.running()
        if running is None:
            raise Unavailable(f"No token: no `trace dev` runs in {home.folder}.")
        issuer = running.get("urls", {}).get("issuer")
        if issuer is None:
            raise Invalid("Users have an issuer of their own (TRACE_OIDC_ISSUER): ask it.")
        signer = KeyFileSigner(home.keys / "issuer.pem")
        made = DevelopmentIssuer(signer, SystemClock(), issuer, settings.oidc_audience)
        return made.mint(f"local:{org or running.get('org', settings.org)}", _LIFETIME)


@dataclass(frozen=True)
class Profile:
    name: str
    url: str
    org: str | None
    token: TokenSource = field(repr=False)

    def read_token(self) -> str:
        token = self.token.read(self.org).strip()
        if _TOKEN.fullmatch(token) is None:
            raise Invalid(f"No token: what comes from {self.token} is none.")
        return token


def path() -> Path:
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).expanduser()
    config = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config") / "trace" / "profiles.toml"


def load() -> dict[str, Profile]:
    """Every profile of the file, by name; the one of this machine is not in it."""
    return _parsed(_text())


def find(name: str) -> Profile:
    known = load()
    if name not in known:
        names = ", ".join([LITE, *sorted(known)])
        raise NotFound(f"There is no profile {name}; there are: {names}. See `trace profile add`.")
    return known[name]


def add(name: str, url: str, org: str | None, token: Mapping[str, Any]) -> Profile:
    """The file keeps what else is in it, comments too."""
    if _NAME.fullmatch(name) is None:
        raise Invalid(f"`{name}` is not a name: small letters, digits, _ and -.")
    before = _text()
    if name == LITE or name in _parsed(before):
        raise ProfileExists(f"There is a profile {name} already; remove it first.")
    ((kind, value),) = token.items()
    lines = [f"[profiles.{name}]", f"url = {_toml(url)}"]
    lines += [f"org = {_toml(org)}"] if org else []
    lines += [f"token = {{ {kind} = {_toml(value)} }}"]
    text = f"{before.rstrip()}\n\n" if before.strip() else ""
    text += "\n".join(lines) + "\n"
    made = _parsed(text)[name]
    _write(text)
    return made


def remove(name: str) -> None:
    if name == LITE:
        raise Invalid("The profile lite is this machine's and stays.")
    find(name)
    kept, inside = [], False
    before = _text()
    for line in before.splitlines(keepends=True):
        header = _HEADER.match(line)
        if header:
            inside = header[1].replace('"', "").replace(" ", "") == f"profiles.{name}"
        if not inside:
            kept.append(line)
    text = "".join(kept)
    if set(_parsed(text)) != set(_parsed(before)) - {name}:
        raise Invalid(f"{path()} is written in another way: remove {name} from it by hand.")
    _write(text)


def _text() -> str:
    try:
        return path().read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path()} cannot be read.") from error


def _write(text: str) -> None:
    try:
        path().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path(), text.encode())
    except OSError as error:
        raise Unavailable(f"{path()} cannot be written: {error.strerror}.") from error


def _parsed(text: str) -> dict[str, Profile]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path()} is not TOML: {error}.") from error
    found = content.get("profiles", {})
    if not isinstance(found, dict):
        raise Invalid(f"{path()}: `profiles` must be tables.")
    return {name: _profile(name, each) for name, each in found.items()}


def _profile(name: str, content: Any) -> Profile:
    where = f"{path()}: profile {name}"
    if not isinstance(content, dict):
        raise Invalid(f"{where} must be a table.")
    if unknown := sorted(set(content) - {"url", "org", "token"}):
        raise Invalid(f"{where}: there is no `{unknown[0]}`; url, org and token are all.")
    url, org = content.get("url"), content.get("org")
    if not isinstance(url, str) or not urlsplit(url).hostname or urlsplit(url).username:
        raise Invalid(f"{where}: `url` must be an address such as https://trace.example.com.")
    if org is not None and not isinstance(org, str):
        raise Invalid(f"{where}: `org` must be text.")
    return Profile(name, url.rstrip("/"), org, _source(where, content.get("token")))


def _source(where: str, token: Any) -> TokenSource:
    if isinstance(token, dict) and len(token) == 1:
        ((kind, value),) = token.items()
        if kind == "command" and isinstance(value, list) and value:
            if all(isinstance(each, str) for each in value):
                return CommandToken(tuple(value))
        elif isinstance(value, str) and value:
            match kind:
                case "env":
                    return EnvToken(value)
                case "file":
                    return FileToken(Path(value))
                case "lite":
                    return LiteToken(Path(value))
    raise Invalid(
        f'{where}: `token` must name one source: {{ command = ["…"] }}, {{ env = "…" }}, '
        '{ file = "…" } or { lite = "home folder" }. A token itself does not belong here.'
    )


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(each) for each in value)}]"
    text = str(value)
    if not text.isprintable():
        raise Invalid("Profiles hold printable text only.")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
