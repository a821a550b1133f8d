from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from trace_core.worker.logs import BoundedLog, Redaction

SECRET = "tok-ABCDEFGH"


def written(pieces: list[bytes], limit: int, *secrets: str) -> bytes:
    log = BoundedLog(Redaction(secrets), limit)
    for piece in pieces:
        log.write(piece)
    return log.content()


def test_a_short_log_is_kept_as_it_is() -> None:
    assert written([b"one\n", b"two\n"], 100) == b"one\ntwo\n"


def test_the_middle_of_a_long_log_is_counted() -> None:
    content = written([b"a" * 50, b"b" * 500, b"c" * 50], 100)
    assert content == b"a" * 50 + b"\n[... 500 bytes left out ...]\n" + b"c" * 50


def test_secrets_are_hidden_in_the_forms_in_which_they_are_printed() -> None:
    secret = 'p"ä\n/x'
    text = f"{secret} {secret!r} p%22%C3%A4%0A%2Fx"
    assert Redaction([secret]).text(text) == "*** '***' ***"


def test_a_secret_inside_another_leaves_no_rest() -> None:
    assert Redaction(["abc", "abcdef"]).text("abcdef abc") == "*** ***"


def test_an_empty_secret_hides_nothing() -> None:
    assert Redaction([""]).text("abc") == "abc"


@settings(deadline=None)
@given(st.lists(st.integers(1, 40), max_size=8), st.integers(2, 60), st.integers(1, 6))
def test_no_piece_of_a_secret_survives_however_the_output_is_cut(
    cuts: list[int], limit: int, count: int
) -> None:
    data = b"..".join([SECRET.encode()] * count)
    pieces: list[bytes] = []
    for cut in cuts:
        pieces.append(data[:cut])
        data = data[cut:]
    content = written([*pieces, data], limit, SECRET)
    assert b"ABC" not in content
    assert b"FGH" not in content
