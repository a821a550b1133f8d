"""The search through the logs of the smoke finds what it must, and shows nothing of it."""

from __future__ import annotations

import pytest

from infra.smoke.log_canary import problems

TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0xxxx.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    "line",
    [
        f"Authorization: Bearer {TOKEN}",
        "worker trw_" + "a" * 43,
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "INSERT INTO tasks VALUES (1)",
        "the value is hunter2-canary",
    ],
)
def test_a_secret_in_a_log_line_is_found_and_not_shown(line: str) -> None:
    found = list(problems(["all is well", line], ["hunter2-canary"]))
    assert len(found) == 1
    assert not any(part in found[0] for part in ("eyJ", "trw_", "whsec_", "hunter2", "VALUES"))


def test_ordinary_lines_are_no_problem() -> None:
    assert list(problems(['{"message":"drained","claimed":3}', ""], ["hunter2-canary"])) == []
