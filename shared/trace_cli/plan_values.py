"""Figures and changed values as people read them."""

from __future__ import annotations

import difflib
import json
from typing import Any

from trace_cli.output import printable

UNKNOWN = "unknown"

_SHORT = 48
_AROUND = 24


def amount(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def of_bytes(value: int | None) -> str:
    if value is None:
        return UNKNOWN
    size = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.4g} TB"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def change(old: Any, new: Any) -> list[str]:
    """`old → new` in one line; long text as lines with `-` and `+`, cut to what differs."""
    before, after = printable(_text(old)), printable(_text(new))
    if "\n" in before or "\n" in after:
        return [
            line.rstrip("\n")
            for line in difflib.ndiff(before.splitlines(), after.splitlines())
            if line[0] in "-+"
        ]
    if max(len(before), len(after)) <= _SHORT:
        return [f"{before} → {after}"]
    if old is None or new is None:
        return [f"{'+' if old is None else '-'} {after if old is None else before}"]
    return [f"- {_around(before, after)}", f"+ {_around(after, before)}"]


def _text(value: Any) -> str:
    match value:
        case None:
            return "(none)"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case list() if all(isinstance(each, str | int | float) for each in value):
            return f"[{', '.join(map(_text, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _around(text: str, other: str) -> str:
    """The part that differs, with a little of what stands around it."""
    pairs = list(zip(text, other, strict=False))
    start = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    turned = list(zip(text[start:][::-1], other[start:][::-1], strict=False))
    same = next((i for i, (a, b) in enumerate(turned) if a != b), len(turned))
    first, last = max(0, start - _AROUND), min(len(text), len(text) - same + _AROUND)
    return f"{'…' if first else ''}{text[first:last]}{'…' if last < len(text) else ''}"
