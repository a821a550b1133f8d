"""What a dataset version is to its readers, and what keeps it from being purged: decided here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Standing(StrEnum):
    CURRENT = "current"
    CANDIDATE = "candidate"
    """Made by a deploy that is open."""
    ROLLBACK_TARGET = "rollback_target"
    """What the last cutover of its DAG left behind."""
    RETIRED = "retired"
    PURGING = "purging"
    """Marked: no new reader, and deleted once no reader can be left."""
    PURGED = "purged"


def standing_of(
    *,
    is_current: bool,
    is_candidate: bool,
    is_rollback_target: bool,
    purge_marked_at: datetime | None,
    purged_at: datetime | None,
) -> Standing:
    if purged_at is not None:
        return Standing.PURGED
    if is_current:
        return Standing.CURRENT
    if purge_marked_at is not None:
        return Standing.PURGING
    if is_candidate:
        return Standing.CANDIDATE
    return Standing.ROLLBACK_TARGET if is_rollback_target else Standing.RETIRED


@dataclass(frozen=True)
class Uses:
    """Everything that may still need a version."""

    is_current: bool
    is_candidate: bool
    is_rollback_target: bool
    snapshots: Sequence[str]
    built_upon: Sequence[str]
    """DAGs with an open deploy that builds from it."""
    read_by: Sequence[str]
    """Running tasks that have it pinned."""
    written_by: Sequence[str]
    """Running tasks of the job that writes it."""


class Kept(StrEnum):
    """Why a version may not be purged."""

    CURRENT = "current"
    CANDIDATE = "candidate"
    ROLLBACK_TARGET = "rollback_target"
    SNAPSHOT = "snapshot"
    BUILD = "build"
    READ = "read"
    WRITTEN = "written"


def kept_by(uses: Uses) -> list[tuple[Kept, str]]:
    """Every reason, with what to do about it; none: it may go."""
    found: list[tuple[Kept, str]] = []
    if uses.is_current:
        found.append((Kept.CURRENT, "It is what readers get now."))
    if uses.is_candidate and not uses.is_current:
        found.append((Kept.CANDIDATE, "An open deploy made it; finish or cancel that first."))
    if uses.is_rollback_target and not uses.is_current:
        found.append(
            (Kept.ROLLBACK_TARGET, "A rollback would bring it back; the next cutover frees it.")
        )
    if uses.snapshots:
        found.append(
            (Kept.SNAPSHOT, f"Snapshots name it: {', '.join(uses.snapshots)}. Delete them first.")
        )
    if uses.built_upon:
        found.append((Kept.BUILD, f"A deploy of {', '.join(uses.built_upon)} is built from it."))
    if uses.read_by:
        found.append((Kept.READ, f"Running tasks read it: {', '.join(uses.read_by)}."))
    if uses.written_by:
        found.append((Kept.WRITTEN, f"Running tasks write to it: {', '.join(uses.written_by)}."))
    return found
