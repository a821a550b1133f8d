"""How a bug is planted: a small change of the real services, in this process only.

A replacement that no longer matches fails, so that a refactoring cannot silently disable a bug.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from unittest import mock

from trace_core.database.sql import Statements

Plant = Callable[[ExitStack], None]


@dataclass(frozen=True)
class Bug:
    name: str
    says: str
    plant: Plant


class DoesNotMatch(AssertionError):
    """The text that a planted bug replaces is gone: the bug must be written anew."""


def pattern(text: str) -> re.Pattern[str]:
    """Blanks and line breaks are no part of what is meant, and not all of them are sent."""
    return re.compile(r"\s*".join(map(re.escape, re.findall(r"[(),=]|[^\s(),=]+", text))))


def edit(statements: Statements, names: Sequence[str], *edits: tuple[str, str]) -> Plant:
    """Replace text in statements; every edit must match in every one of them."""

    def plant(stack: ExitStack) -> None:
        changed = dict(statements.all)
        for name in names:
            for old, new in edits:
                text, count = pattern(old).subn(lambda _match, new=new: new, changed[name])
                if not count:
                    raise DoesNotMatch(f"{name} has no {old!r}")
                changed[name] = text
        stack.enter_context(mock.patch.object(statements, "all", MappingProxyType(changed)))

    return plant


def all_of(*plants: Plant) -> Plant:
    def plant(stack: ExitStack) -> None:
        for each in plants:
            each(stack)

    return plant


def patch(target: Any, name: str, make: Callable[[Any], Any]) -> Plant:
    """Replace an attribute by what `make` makes of the original."""

    def plant(stack: ExitStack) -> None:
        original = getattr(target, name)
        stack.enter_context(mock.patch.object(target, name, make(original)))

    return plant
