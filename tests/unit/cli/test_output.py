"""What people see."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trace_cli.dev import status_line
from trace_cli.output import ago, print_error, printable, scope, table
from trace_client import ApiError
from trace_client.calls import part
from trace_core.http.work_answers import Counts, OutboxCounts, Scope, Status

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("2026-01-15T12:00:00+00:00", "0 s ago"),
        ("2026-01-15T11:59:01Z", "59 s ago"),
        ("2026-01-15T11:58:00+00:00", "2 min ago"),
        ("2026-01-15T09:00:00Z", "3 h ago"),
        ("2026-01-05T12:00:00Z", "10 d ago"),
        ("2026-01-15T12:00:30Z", "in 30 s"),
    ],
)
def test_times_are_said_as_people_do(at: str, said: str) -> None:
    assert ago(datetime.fromisoformat(at), NOW) == said


def test_no_time_is_nothing() -> None:
    assert ago(None) is None


def test_text_of_others_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[2Jb\nc\td\x07") == "a\ufffd[2Jb\nc\td\ufffd"


def test_scopes_are_short() -> None:
    assert scope(Scope(cursor=5)) == "5"
    assert scope(Scope(partition_key="5-9", start=5, end=9)) == "5-9"
    assert scope(Scope()) is None
    assert scope(None) is None


def test_ids_are_never_broken_over_lines(capsys: pytest.CaptureFixture[str]) -> None:
    name = "x" * 300
    table(("A", "N"), [(name, 1), (None, None)])
    assert name in capsys.readouterr().out


def test_an_error_is_one_message_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    problems = [{"field": "limit", "reason": "too large"}]
    print_error(ApiError(422, {"code": "Invalid", "message": "Bad.", "problems": problems}))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error: Bad.\n  limit: too large\n"


def test_a_name_is_one_part_of_a_path_whatever_was_typed() -> None:
    assert part("a/../b?c") == "a%2F..%2Fb%3Fc"
    assert part("") == "-"


def test_the_status_line_names_what_matters() -> None:
    totals = Counts(queued=1, running=2, retrying=0, completed_24h=3, failed=4)

    def line(failed: int) -> str:
        outbox = OutboxCounts(pending=5, failed=failed, oldest_pending_at=None)
        return status_line(Status(now=NOW, jobs=[], totals=totals, outbox=outbox)).plain

    assert line(0) == "queued 1   running 2   completed in 24 h 3   failed 4   outbox 5"
    assert "outbox failed 1" in line(1)
