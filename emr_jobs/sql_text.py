"""What can be said of a user's SQL by its text alone: when a DAG is deployed, where there is no
Spark, and again before Spark's parser sees it, which stalls on deep nesting.

It refuses what is surely wrong and lets the rest pass; the judge is `sql_gate`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from emr_jobs.sql_allowed import REASONS

CHARACTERS_MAX = 50_000
TOKENS_MAX = 10_000
DEPTH_MAX = 40
"""Of brackets and CASE within one another."""
REPEATED_MAX = 20
"""Of NOT, signs and types of types, each of which nests without a bracket."""

_FIRST_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
# As Spark's own lexer cuts it: what is text to one and code to the other would not be judged. A
# line comment goes on behind a backslash, and a backslash in raw text is nothing but itself.
_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--(?:\\\n|[^\r\n])*)
    | (?P<open_comment>/\*)
    | (?P<text>[rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<number>\.?\d[\w.]*)
    | (?P<word>[^\W\d]\w*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_TYPED_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")
TIME_TEXT = re.compile(r"\s*[+-]?\d+(?:-[^\\]*)?\s*")
"""With a year: of a time alone, the day would be that of the run."""
_FROM_INSIDE = ("EXTRACT", "TRIM", "BTRIM", "LTRIM", "RTRIM", "SUBSTRING", "SUBSTR", "OVERLAY")
_BEFORE_COLUMNS = {
    *".,([=<>!+-/%|&^~",
    *("SELECT", "ALL", "DISTINCT", "BY", "AND", "OR", "NOT", "AS", "ON", "WHERE", "HAVING"),
    *("CASE", "WHEN", "THEN", "ELSE", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE"),
}
"""Behind these, FROM and JOIN are columns: `from` is one of every transfer."""
_NESTING_WORDS = {"NOT", "-", "+", "~"}


class SqlRefused(Exception):
    """A statement that is not run: which construct, where, and what to write instead."""

    def __init__(self, what: str, reason: str, at: tuple[int, int] | None, fix: str) -> None:
        self.what, self.reason, self.at, self.fix = what, reason, at, fix
        where = f" at line {at[0]}, column {at[1]}" if at else ""
        super().__init__(f"{what}{where}: {reason}; {fix}")


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        return self.text.upper()


def check_text(sql: str, aliases: Iterable[str] | None = None) -> None:
    """Raise `SqlRefused` for what no parser needs to see.

    Relations are compared with the input aliases when these are given.
    """
    if len(sql) > CHARACTERS_MAX:
        raise SqlRefused(
            "the statement",
            f"has {len(sql):,} characters and may have {CHARACTERS_MAX:,}",
            None,
            "cut it into two jobs",
        )
    strange = next((each for each in sql if ord(each) < 32 and each not in "\t\r\n"), None)
    if strange is not None:
        at = _place(sql, sql.index(strange))
        raise SqlRefused("a control character", "is no SQL", at, "remove it")
    if "${" in sql:
        at = _place(sql, sql.index("${"))
        raise SqlRefused("`${`", "variables are not filled in", at, "write the value itself")
    tokens = tuple(_tokens(sql))
    if not tokens:
        raise SqlRefused("the statement", "is empty", None, "write a SELECT over the inputs")
    if len(tokens) > TOKENS_MAX:
        raise SqlRefused(
            "the statement",
            f"has {len(tokens):,} words and may have {TOKENS_MAX:,}",
            None,
            "cut it into two jobs",
        )
    _one_select(sql, tokens)
    _nesting(sql, tokens)
    _literals(sql, tokens)
    _calls(sql, tokens)
    _relations(sql, tokens, aliases)


def _tokens(sql: str) -> Iterator[Token]:
    at = 0
    while at < len(sql):
        match = _TOKEN.match(sql, at)
        if match is None:
            raise SqlRefused("a character", "is no SQL", _place(sql, at), "remove it")
        kind, text = match.lastgroup or "other", match.group()
        if kind == "open_comment":
            if sql.startswith("/*+", at):
                yield Token("hint", "/*+", at)
                at += 3
                continue
            at = _end_of_comment(sql, at)
            continue
        if kind == "other" and text in "'\"`":
            raise SqlRefused(f"{text}", "opens what is never closed", _place(sql, at), "close it")
        if kind not in ("space", "comment"):
            yield Token(kind, text, at)
        at = match.end()


def _end_of_comment(sql: str, start: int) -> int:
    depth, at = 0, start
    # What opens a hint opens no comment in a comment.
    for match in re.compile(r"/\*(?!\+)|\*/").finditer(sql, start):
        depth += 1 if match.group() == "/*" else -1
        at = match.end()
        if depth == 0:
            return at
    raise SqlRefused("/*", "opens a comment that never ends", _place(sql, start), "close it")


def _one_select(sql: str, tokens: Sequence[Token]) -> None:
    first = tokens[0]
    if first.word not in _FIRST_WORDS:
        raise SqlRefused(
            first.text[:40],
            "only one SELECT is run, no command",
            _place(sql, first.start),
            "begin with SELECT or WITH",
        )
    ends = [each for each in tokens if each.text == ";"]
    if ends:
        raise SqlRefused(
            "`;`",
            "one statement is run, and nothing follows it",
            _place(sql, ends[0].start),
            "remove it, or make a job of each statement",
        )


def _nesting(sql: str, tokens: Sequence[Token]) -> None:
    depth, row, types = 0, 0, 0
    for before, each in zip((None, *tokens), tokens, strict=False):
        if each.text in ("(", "[") or each.word == "CASE":
            depth += 1
        elif each.text in (")", "]") or (each.word == "END" and each.kind == "word"):
            depth -= 1
        row = row + 1 if each.word in _NESTING_WORDS else 0
        if each.text == "<" and before and before.word in ("ARRAY", "MAP", "STRUCT"):
            types += 1
        if depth > DEPTH_MAX or row > REPEATED_MAX or types > 5 * REPEATED_MAX:
            raise SqlRefused(
                each.text,
                f"is nested deeper than {DEPTH_MAX} levels",
                _place(sql, each.start),
                "name the inner parts in a WITH",
            )


def _literals(sql: str, tokens: Sequence[Token]) -> None:
    """`TIMESTAMP 'now'` is a clock that the parser has replaced before anybody can see it."""
    for each, after in pairwise(tokens):
        if each.word in _TYPED_TIMES and after.kind == "text":
            inside = after.text.lstrip("rR")[1:-1]
            if not TIME_TEXT.fullmatch(inside):
                raise SqlRefused(
                    f"{each.text} {after.text[:40]}",
                    "is not written as a date",
                    _place(sql, each.start),
                    "write it as '2026-01-31' or '2026-01-31 12:00:00'",
                )


def _calls(sql: str, tokens: Sequence[Token]) -> None:
    """The well-known ones; which functions there are is judged on the plan."""
    for each, after in pairwise(tokens):
        name = unquoted(each.text).lower()
        if after.text == "(" and each.kind in ("word", "quoted") and name in REASONS:
            if name in ("first", "first_value", "last", "last_value", "nth_value", "json"):
                continue
            raise SqlRefused(
                f"the function {name}", REASONS[name], _place(sql, each.start), "leave it out"
            )


def _relations(sql: str, tokens: Sequence[Token], aliases: Iterable[str] | None) -> None:
    names = {each.lower() for each in aliases} if aliases is not None else None
    named = set(_common_tables(tokens))
    functions: list[str] = []
    for at, each in enumerate(tokens):
        if each.text == "(":
            functions.append(tokens[at - 1].word if at else "")
        elif each.text == ")" and functions:
            functions.pop()
        if each.kind != "word" or each.word not in ("FROM", "JOIN"):
            continue
        if at and tokens[at - 1].word in _BEFORE_COLUMNS:
            continue
        inside = functions[-1] if functions else ""
        if each.word == "FROM" and inside in _FROM_INSIDE:
            continue
        _relation(sql, tokens[at + 1 : at + 4], names, named)


def _common_tables(tokens: Sequence[Token]) -> Iterator[str]:
    """The names that a WITH gives; some too many, as a list of columns looks like a call."""
    for before, each, after, later in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        begins = before.word in ("WITH", "RECURSIVE", ",") and each.kind in ("word", "quoted")
        if begins and (after.text == "(" or (after.word == "AS" and later.text == "(")):
            yield unquoted(each.text).lower()


def _relation(
    sql: str, following: Sequence[Token], names: set[str] | None, named: set[str]
) -> None:
    if not following or following[0].kind not in ("word", "quoted"):
        return
    first, after = following[0], following[1] if len(following) > 1 else None
    name = unquoted(first.text)
    if first.word in ("LATERAL", "VALUES", "SELECT", "TABLE") and first.kind == "word":
        return
    if after is not None and after.text == ".":
        last = unquoted(following[2].text) if len(following) > 2 else ""
        raise refused_relation(f"{name}.{last}", _place(sql, first.start), names)
    if after is not None and after.text == "(":
        return
    if names is not None and name.lower() not in names and name.lower() not in named:
        raise refused_relation(name, _place(sql, first.start), names)


def refused_relation(
    name: str, at: tuple[int, int] | None, aliases: Iterable[str] | None
) -> SqlRefused:
    known = ", ".join(sorted(aliases)) if aliases else ""
    return SqlRefused(
        f"the relation {name[:80]}",
        "is no input of this job, and neither tables nor files are read by name",
        at,
        f"read one of the inputs: {known}" if known else "read an input by its alias",
    )


def unquoted(text: str) -> str:
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def _place(sql: str, start: int) -> tuple[int, int]:
    before = sql[:start]
    return before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1
