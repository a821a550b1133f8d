"""What is wrong with a DAG file: where, why, and what to write instead."""

from __future__ import annotations

import difflib
import heapq
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any, NamedTuple

from trace_core.kernel.errors import Invalid

PROBLEMS_MAX = 100
"""Nobody reads more at once, and a hostile file must not make us compute a million suggestions."""

_FRAME_WIDTH = 96
_SHOWN_VALUE = 60
_COMPARED = 64
_MEASURED = 12
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LINE_BREAK = re.compile(r"\r\n|\r|\n")

Path = tuple[str | int, ...]
"""The way from the top of the file to a value: keys and list indexes."""


class Position(NamedTuple):
    """A place in the file, both counted from 1; columns count characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to change in the file."""

    file: str
    line: int
    column: int
    field: str
    reason: str
    suggestion: str | None
    code: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def headline(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}"
        return f"{where}: {self.field}: {self.reason}" if self.field else f"{where}: {self.reason}"


class DagInvalid(Invalid):
    """The DAG file has problems; all that were found are listed."""

    code = "DagInvalid"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        file = self.problems[0].file if self.problems else "the DAG file"
        super().__init__(
            f"{file} has {count} problem{'' if count == 1 else 's'}",
            problems=[problem.as_json() for problem in self.problems],
        )


class TooManyProblems(Exception):
    """Stops the reading of a file whose list of problems is full; never leaves the room."""


class Problems:
    """Collects the problems of one file, without repeating one."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._lines: list[str] = []
        self._found: dict[tuple[Position, str, str], Problem] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def set_text(self, text: str) -> None:
        self._lines = split_lines(text)

    def verbatim(self, at: Position, value: str) -> int | None:
        """The column where the file spells `value` letter by letter, quoted or not, at `at`."""
        line = self._lines[at.line - 1] if at.line <= len(self._lines) else ""
        for column in (at.column, at.column + 1):
            if line.startswith(value, column - 1):
                return column
        return None

    def add(
        self, at: Position, path: Path, code: str, reason: str, suggestion: str | None = None
    ) -> None:
        field = field_name(path)
        key = (at, field, code)
        if key in self._found:
            return
        if len(self._found) >= PROBLEMS_MAX:
            last = Position(at.line, at.column)
            self._found[last, "", "too_many_problems"] = Problem(
                self._file,
                at.line,
                at.column,
                "",
                f"more than {PROBLEMS_MAX} problems; reading stopped here",
                "fix those above first",
                "too_many_problems",
            )
            raise TooManyProblems
        self._found[key] = Problem(self._file, at.line, at.column, field, reason, suggestion, code)

    def in_file_order(self) -> tuple[Problem, ...]:
        def place(problem: Problem) -> tuple[bool, int, int, str]:
            last = problem.code == "too_many_problems"
            return last, problem.line, problem.column, problem.field

        return tuple(sorted(self._found.values(), key=place))


def field_name(path: Path) -> str:
    """`("jobs", 2, "from", "job")` as people write it: `jobs[2].from.job`."""
    name = ""
    for step in path:
        if isinstance(step, int):
            name += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            name += f".{step}" if name else step
        else:
            name += f"[{shown(step)}]"
    return name


def shown(value: object) -> str:
    """A value of the file inside a sentence: one line, in backticks, cut when long."""
    text = value if isinstance(value, str) else str(value)
    text = text.replace("\n", "⏎")
    text = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return f"`{text[: _SHOWN_VALUE - 1]}…`" if len(text) > _SHOWN_VALUE else f"`{text}`"


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The known name that was probably meant."""
    word = word.casefold().replace("-", "_")[:_COMPARED]
    slack = max(2, len(word) // 2)
    near = {
        name.casefold()[:_COMPARED]: name for name in names if abs(len(name) - len(word)) <= slack
    }
    if word in near:
        return near[word]
    # The real measure is costly and a hostile file asks for it often, so only those names are
    # measured that begin and end most alike, as a misspelt name does.
    likely = heapq.nlargest(_MEASURED, near, key=lambda name: _shared_ends(word, name))
    matches = difflib.get_close_matches(word, likely, n=1, cutoff=0.6)
    return near[matches[0]] if matches else None


def _shared_ends(word: str, name: str) -> int:
    def shared(one: Iterable[str], other: Iterable[str]) -> int:
        pairs = zip(one, other, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    return shared(word, name) + shared(reversed(word), reversed(name))


def did_you_mean(word: str, names: Iterable[str], otherwise: str | None = None) -> str | None:
    name = nearest(word, names)
    return f"did you mean `{name}`?" if name else otherwise


def one_of(names: Iterable[str]) -> str:
    """`a`, `b` or `c`."""
    quoted = [f"`{name}`" for name in names]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def split_lines(text: str) -> list[str]:
    return _LINE_BREAK.split(text)


def code_frame(problem: Problem, lines: list[str]) -> str:
    """The line of the problem and the one before it, with a caret under the column."""
    if not 1 <= problem.line <= len(lines):
        return ""
    gutter = len(str(problem.line))
    # A line may be a megabyte long: show the part around the column.
    start = max(0, problem.column - _FRAME_WIDTH // 2) if problem.column > _FRAME_WIDTH else 0
    frame = []
    for number in (problem.line - 1, problem.line):
        if number >= 1:
            cut = lines[number - 1].replace("\t", " ")[start : start + _FRAME_WIDTH]
            visible = "".join(c if c.isprintable() else "\ufffd" for c in cut)
            frame.append(f"{number:>{gutter}} | {visible}".rstrip())
    frame.append(f"{'':>{gutter}} | {' ' * (problem.column - 1 - start)}^")
    return "\n".join(frame)


def render(problems: Iterable[Problem], text: str) -> str:
    """All problems for a person to read, as plain text."""
    lines = split_lines(text)
    blocks = []
    for problem in problems:
        parts = [problem.headline(), code_frame(problem, lines)]
        if problem.suggestion:
            parts.append(f"  = {problem.suggestion}")
        blocks.append("\n".join(part for part in parts if part))
    return "\n\n".join(blocks)
