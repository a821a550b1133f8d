"""The YAML parser's complaints in words that help the writer of a DAG file."""

from __future__ import annotations

import yaml

from trace_core.dag.problems import Position, shown, split_lines

_EXPLAINED = (
    (
        "mapping values are not allowed",
        "a `:` cannot stand here",
        "put text that contains `: ` in quotes, and check the indentation of this line",
    ),
    (
        "could not find expected ':'",
        "a key without `:` stands before this place",
        "write `key: value`, and check the indentation",
    ),
    (
        "did not find expected key",
        "a key is expected here",
        "align it with the keys above it, and close open quotes",
    ),
    (
        "did not find expected '-' indicator",
        "a list item (`- …`) is expected here",
        "align this line with the items above it, or indent it more to belong to the last item",
    ),
    (
        "did not find expected ',' or ']'",
        "this `[` list is not closed",
        "separate items with `,` and close the list with `]`",
    ),
    (
        "did not find expected ',' or '}'",
        "this `{` map is not closed",
        "separate keys with `,` and close the map with `}`",
    ),
    (
        "block sequence entries are not allowed",
        "a list item (`- …`) cannot start here",
        "put the `-` on a line of its own, indented under its key",
    ),
    (
        "found unexpected end of stream",
        "these quotes are not closed",
        "close them",
    ),
    (
        "found unknown escape character",
        "this `\\` escape does not exist",
        "use single quotes around text with backslashes",
    ),
    (
        "did not find expected <document start>",
        "this is outside the document",
        "check the indentation of this line and the ones before it",
    ),
)


_WHERE_IT_OPENED = ("',' or ']'", "',' or '}'", "unexpected end of stream")
"""For these the parser notices late; the place where it began is the one to look at."""


def explain(error: yaml.MarkedYAMLError, text: str) -> tuple[Position, str, str]:
    """Place, reason and suggestion for a syntax error."""
    said = str(error.problem or error.context or "not valid YAML")
    mark = error.problem_mark or error.context_mark
    if error.context_mark and any(words in said for words in _WHERE_IT_OPENED):
        mark = error.context_mark
    at = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
    if "cannot start any token" in said:
        return at, *_bad_start(text, at)
    for pattern, reason, suggestion in _EXPLAINED:
        if pattern in said:
            return at, reason, suggestion
    better = "check the indentation and the quotes around here"
    return at, f"this is not valid YAML ({said})", better


def _bad_start(text: str, at: Position) -> tuple[str, str]:
    lines = split_lines(text)
    line = lines[at.line - 1] if at.line <= len(lines) else ""
    character = line[at.column - 1 : at.column]
    if character == "\t" or "\t" in line[: at.column]:
        return "a tab cannot indent YAML", "use spaces"
    return f"{shown(character)} cannot start a value", "put the text in quotes"
