"""Named SQL: every statement of a room sits in its `.sql` files under `-- name: …`.

Steps that several statements share are written once under `-- fragment: …`, and a line
`-- include: …` puts them in place, also into another fragment. Comments are for readers: they do
not travel to the server, and a short statement stays within what the driver remembers between
calls.
"""

from __future__ import annotations

import re
from importlib import resources
from types import MappingProxyType

_SECTION = re.compile(r"^-- (name|fragment): ([a-z_0-9]+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
_BLANKS = re.compile(r" ?([(),=]) ?")
_INCLUDE = re.compile(r"^-- include: ([a-z_0-9]+)\s*$", re.MULTILINE)


class Statements:
    """The statements of one or more files, read once; an unknown name fails at import."""

    def __init__(self, package: str, *files: str) -> None:
        statements: dict[str, str] = {}
        fragments: dict[str, str] = {}
        for file in files:
            text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
            parts = _SECTION.split(text)
            for kind, name, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
                found = statements if kind == "name" else fragments
                if name in found:
                    raise ValueError(f"{package}/{file}: {kind} {name} stands twice")
                found[name] = body.strip().rstrip(";")

        def whole(body: str) -> str:
            return _INCLUDE.sub(lambda match: whole(fragments[match[1]]), body)

        self.all = MappingProxyType(
            {name: _shorten(whole(body)) for name, body in statements.items()}
        )

    def __getitem__(self, name: str) -> str:
        return self.all[name]


def _shorten(statement: str) -> str:
    """Without comments, indentation and blanks beside commas, brackets and equals signs; no literal
    of ours holds any of those blanks."""
    return _BLANKS.sub(r"\1", " ".join(_COMMENT.sub("", statement).split()))
