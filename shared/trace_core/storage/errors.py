"""What the rows and objects of datasets may be refused for, beside `Fenced` and `Superseded`."""

from __future__ import annotations

from trace_core.kernel.errors import Conflict, Invalid, Rejected, TraceError


class ManifestInvalid(Invalid):
    """The manifest does not describe what was written."""

    code = "ManifestInvalid"


class RowsInvalid(Invalid):
    """The rows do not fit the columns of their dataset."""

    code = "RowsInvalid"


class PartialOverlap(Rejected):
    """The scope cuts through an earlier commit, which can only be replaced as a whole."""

    code = "PartialOverlap"
    status = 409


class CursorMoved(Conflict):
    """The source's cursor is no longer where this slice began."""

    code = "CursorMoved"


class VersionDiffers(Conflict):
    """This dataset version exists with another definition."""

    code = "VersionDiffers"


class Damaged(TraceError):
    """Stored objects differ from what was committed; restore them, or rebuild the scope."""

    code = "Damaged"
