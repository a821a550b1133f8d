"""Sizes, pins and places of datasets as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from trace_cli.output import Figure
from trace_core.http.dataset_answers import DatasetPin, Neighbour
from trace_core.http.work_answers import Scope
from trace_core.kernel.errors import Invalid
from trace_core.registry.standing import Standing
from trace_core.storage.model import Backend

ALL = "all of it"
_UNITS = ("kB", "MB", "GB", "TB", "PB")


def size(value: int | None) -> Figure | None:
    """Three digits and a unit: `980 B`, `1.25 MB`."""
    if value is None:
        return None
    if value < 1000:
        return Figure(f"{value} B")
    amount, unit = float(value), "B"
    for unit in _UNITS:  # noqa: B007
        amount /= 1000
        if amount < 999.5:
            break
    return Figure(f"{amount:.3g} {unit}" if amount < 999.5 else f"{amount:,.0f} {unit}")


def counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def whole(value: int | None) -> Figure | None:
    return None if value is None else Figure(f"{value:,}")


def state(value: Standing) -> str:
    """One word, so that a line with an id still fits a terminal."""
    return "rollback" if value is Standing.ROLLBACK_TARGET else value.value


def backends(found: Sequence[Backend]) -> str:
    return ", ".join("events only" if each is Backend.CONTROL else each.value for each in found)


def pin(value: DatasetPin) -> str:
    """As `--at` takes it."""
    return f"{value.dataset_version}:{value.number}"


def of_scope(value: Scope) -> str:
    if value.cursor is not None:
        return str(value.cursor)
    return ALL if value.partition_key is None else value.partition_key


def neighbour(value: Neighbour) -> str:
    place = f"{value.dag}.{value.job}"
    return place if value.dataset is None else f"{value.dataset} ({place})"


def moment(text: str | None) -> tuple[str | None, int | None]:
    """VERSION:NUMBER, or VERSION alone."""
    if text is None:
        return None, None
    version, colon, number = text.partition(":")
    if colon and not (number.isascii() and number.isdecimal()):
        raise Invalid(f"`{text}` is not VERSION:NUMBER, as `trace dataset head` prints it.")
    return version, int(number) if colon else None
