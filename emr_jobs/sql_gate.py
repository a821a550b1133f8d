"""Whether a user's SQL may run: one SELECT over the inputs, judged on the plan that Spark's own
parser makes of it. `sql_nodes` lists the kinds of parts that it may have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from emr_jobs.sql_allowed import (
    FUNCTIONS,
    GENERATORS,
    HINTS,
    IN_WINDOWS_ONLY,
    NAMES_THAT_ARE_CALLS,
    REASONS,
    TABLE_FUNCTIONS,
    TIME_FUNCTIONS,
    WITH_ORDER_ONLY,
)
from emr_jobs.sql_nodes import (
    CATALYST,
    COLLECTIONS,
    DEPTH_MAX,
    JOINS,
    LEAVES,
    ORDERED,
    REASONS_OF_NODES,
    ROWS,
    TYPES,
    WALKED,
    below,
    elements,
    fields_of,
    origin,
)
from emr_jobs.sql_text import SqlRefused, check_text, refused_relation

TIMES = ("date", "timestamp", "timestamp_ntz")
RELATIONS_MAX = 200
"""That are read once every WITH is written out: a small text can name billions."""
CUBE_MAX = 10
GROUPINGS_MAX = 3

_CAST_CALLS = {
    "bigint": "long",
    "int": "integer",
    "smallint": "short",
    "tinyint": "byte",
    "double": "double",
    "float": "float",
    "decimal": "decimal(10,0)",
    "string": "string",
}


@dataclass
class Judged:
    """A statement that may run."""

    reads: set[str] = field(default_factory=set)
    """The inputs that it names."""
    casts: set[tuple[str, str]] = field(default_factory=set)
    """(column, type) of the casts that somebody wrote."""


def judge(session: SparkSession, sql: str, aliases: Iterable[str]) -> Judged:
    """Raise `SqlRefused` unless the statement is one SELECT over `aliases` of allowed parts.

    `session` must be the one that runs it: its settings decide what a text means.
    """
    known = tuple(aliases)
    check_text(sql, known)
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(sql)
    except ParseException as error:
        told = " ".join(str(error).split("== SQL ==")[0].split())
        raise SqlRefused("the statement", told, None, "write it as Spark SQL") from error
    found = _Judge(known)
    found.relations(plan, {}, [])
    return found.judged


class _Judge:
    def __init__(self, aliases: Iterable[str]) -> None:
        self._aliases = {each.lower(): each for each in aliases}
        self._cubes = self._groupings = 0
        self._ordered_windows: frozenset[str] = frozenset()
        self.judged = Judged()

    def relations(
        self, node: Any, tables: Mapping[str, int], above: list[Any], window: bool = False
    ) -> int:
        """How many relations a part of the plan reads; raises for what is not allowed."""
        if not isinstance(node, JavaObject):
            return 0
        kind = node.getClass().getName()
        if kind.startswith(COLLECTIONS):
            return self._all(elements(node), tables, above)
        if len(above) > DEPTH_MAX:
            raise self._refused(
                above,
                "the statement",
                f"is nested deeper than {DEPTH_MAX} levels",
                "cut long chains of operators or of UNION into parts with WITH",
            )
        name = kind.removeprefix(f"{CATALYST}expressions.").rpartition(".")[2]
        here = [*above, node]
        if kind in ROWS:
            return 1
        if kind in LEAVES or kind.startswith(TYPES) or kind in JOINS:
            # A type or a name.
            return self._all(fields_of(node), tables, here) if kind in JOINS else 0
        if kind.endswith("CaseInsensitiveStringMap") and node.isEmpty():
            return 0
        if kind.removeprefix(f"{CATALYST}expressions.") in ORDERED and window:
            return self._all(fields_of(node), tables, here)
        if kind not in WALKED:
            told, reason = REASONS_OF_NODES.get(
                name, (name.removesuffix("$"), "is not among what a statement may use")
            )
            raise self._refused(here, told, reason, "leave it out")
        check = getattr(self, f"_check_{name.lower()}", None)
        if check is not None:
            found: int | None = check(node, tables, here, window)
            if found is not None:
                return found
        if name == "WindowExpression" or name == "UnresolvedWindowExpression":
            first, *rest = fields_of(node)
            ordered = self._is_ordered(rest[0])
            return self.relations(first, tables, here, ordered) + self._all(rest, tables, here)
        if name == "AggregateExpression" and window:
            first, *rest = fields_of(node)
            return self.relations(first, tables, here, True) + self._all(rest, tables, here)
        return self._limited(self._all(fields_of(node), tables, here), here)

    def _all(self, parts: Iterable[Any], tables: Mapping[str, int], above: list[Any]) -> int:
        return sum(self.relations(each, tables, above) for each in parts)

    def _limited(self, count: int, above: list[Any]) -> int:
        if count > RELATIONS_MAX:
            raise self._refused(
                above,
                "the statement",
                f"reads more than {RELATIONS_MAX} relations once each WITH is written out",
                "cut it into two jobs",
            )
        return count

    def _check_unresolvedrelation(
        self, node: Any, tables: Mapping[str, int], above: list[Any], _window: bool
    ) -> int | None:
        parts = [str(each) for each in elements(node.multipartIdentifier())]
        if node.isStreaming():
            raise self._refused(above, "STREAM", "inputs are read at their pin", "leave it out")
        if not node.options().isEmpty():
            raise self._refused(above, "WITH (…)", "a relation takes no options", "leave it out")
        name = parts[0].lower()
        if len(parts) == 1 and name in tables:
            return tables[name]
        if len(parts) == 1 and name in self._aliases:
            self.judged.reads.add(self._aliases[name])
            return 1
        raise refused_relation(".".join(parts), origin(above), self._aliases.values())

    def _check_unresolvedwith(
        self, node: Any, tables: Mapping[str, int], above: list[Any], _window: bool
    ) -> int | None:
        if any(each is True for each in fields_of(node)):
            raise self._refused(above, "WITH RECURSIVE", "it may never end", "leave it out")
        inside = dict(tables)
        for each in elements(node.cteRelations()):
            count = self.relations(each._2(), inside, above)
            inside[str(each._1()).lower()] = self._limited(count, above)
        return self.relations(node.child(), inside, above)

    def _check_withwindowdefinition(
        self, node: Any, tables: Mapping[str, int], above: list[Any], _window: bool
    ) -> int | None:
        outside, named = self._ordered_windows, list(elements(node.windowDefinitions()))
        again = {str(each._1()) for each in named}
        ordered = {str(each._1()) for each in named if self._is_ordered(each._2())}
        self._ordered_windows = (outside - again) | ordered
        try:
            return self._limited(self._all(fields_of(node), tables, above), above)
        finally:
            self._ordered_windows = outside

    def _is_ordered(self, window: Any) -> bool:
        """`window` is written out, or the name of one."""
        if window.getClass().getSimpleName() == "WindowSpecReference":
            return str(window.name()) in self._ordered_windows
        return not window.orderSpec().isEmpty()

    def _check_unresolvedfunction(
        self, node: Any, tables: Mapping[str, int], above: list[Any], window: bool
    ) -> None:
        parts = [str(each) for each in elements(node.nameParts())]
        name = ".".join(parts).lower()
        if window and name in IN_WINDOWS_ONLY:
            return
        self._allow(name, FUNCTIONS | GENERATORS, "the function", above)
        if name in WITH_ORDER_ONLY and node.orderingWithinGroup().isEmpty():
            raise self._refused(
                above,
                f"the function {name}",
                "without an order it may give another value in each run",
                f"write {name}(…) WITHIN GROUP (ORDER BY …)",
            )
        arguments = list(elements(node.arguments()))
        if name in _CAST_CALLS and len(arguments) == 1:
            self._note_cast(arguments[0], _CAST_CALLS[name])

    def _check_unresolvedinlinetable(
        self, node: Any, tables: Mapping[str, int], above: list[Any], _window: bool
    ) -> None:
        """Spark makes values of its expressions before the plan can be asked for clocks."""
        for kind, each in below(node):
            time = kind == f"{CATALYST}expressions.Cast" and each.dataType().typeName() in TIMES
            if kind == f"{CATALYST}analysis.UnresolvedFunction":
                name = str(list(elements(each.nameParts()))[-1]).lower()
                time = name in TIME_FUNCTIONS
            if time:
                raise self._refused(
                    [*above, each],
                    "a time that VALUES computes",
                    "may be another one in each run",
                    "write it as a date: date '2026-01-31', or compute it in the SELECT",
                )

    def _check_unresolvedtablevaluedfunction(
        self, node: Any, tables: Mapping[str, int], above: list[Any], _window: bool
    ) -> None:
        name = ".".join(str(each) for each in elements(node.name())).lower()
        self._allow(name, TABLE_FUNCTIONS | GENERATORS, "the table function", above)

    def _check_unresolvedgenerator(
        self, node: Any, tables: Mapping[str, int], above: list[Any], _window: bool
    ) -> None:
        name = str(node.name().unquotedString()).lower()
        self._allow(name, GENERATORS, "the table function", above)

    def _check_unresolvedattribute(
        self, node: Any, tables: Mapping[str, int], above: list[Any], _window: bool
    ) -> int | None:
        parts = [str(each).lower() for each in elements(node.nameParts())]
        if "_metadata" in parts:
            raise self._refused(above, "_metadata", REASONS["input_file_name"], "leave it out")
        if len(parts) == 1 and parts[0] in NAMES_THAT_ARE_CALLS:
            name = parts[0]
            raise self._refused(
                above,
                name,
                REASONS.get(name, "it is a function and not a column"),
                f"leave it out; if a column is meant, write its input too: alias.{name}",
            )
        if len(parts) > 1 and parts[0] in ("session", "system", "spark_catalog"):
            raise self._refused(
                above, ".".join(parts), "there are no variables and no catalogs", "leave it out"
            )
        return 0

    def _check_unresolvedhint(
        self, node: Any, tables: Mapping[str, int], above: list[Any], _window: bool
    ) -> None:
        self._allow(str(node.name()).lower(), HINTS, "the hint", above)

    def _check_cast(
        self, node: Any, tables: Mapping[str, int], above: list[Any], _window: bool
    ) -> None:
        self._note_cast(node.child(), str(node.dataType().json()).strip('"'))

    def _check_sort(
        self, node: Any, tables: Mapping[str, int], above: list[Any], _window: bool
    ) -> None:
        if not getattr(node, "global")():
            raise self._refused(above, "SORT BY", "it sorts parts only", "write ORDER BY")

    def _check_globallimit(
        self, node: Any, tables: Mapping[str, int], above: list[Any], _window: bool
    ) -> None:
        self._check_order(node.child(), "LIMIT", above)

    def _check_offset(
        self, node: Any, tables: Mapping[str, int], above: list[Any], _window: bool
    ) -> None:
        self._check_order(node.child(), "OFFSET", above)

    def _check_order(self, below: Any, what: str, above: list[Any]) -> None:
        while (name := below.getClass().getSimpleName()) in (
            "LocalLimit",
            "Offset",
            "WithWindowDefinition",
        ):
            below = below.child()
        if name != "Sort":
            raise self._refused(
                above,
                what,
                "without an order each run may keep other rows",
                "add ORDER BY with columns that tell rows apart",
            )

    def _check_cube(
        self, node: Any, tables: Mapping[str, int], above: list[Any], _window: bool
    ) -> None:
        self._cubes += sum(1 for _ in elements(node.children()))
        self._check_groupingsets(node, tables, above, _window)
        if self._cubes > CUBE_MAX:
            raise self._refused(
                above, "CUBE", f"takes at most {CUBE_MAX} columns", "write GROUPING SETS"
            )

    def _check_groupingsets(
        self, node: Any, tables: Mapping[str, int], above: list[Any], _window: bool
    ) -> None:
        self._groupings += 1
        if self._groupings > GROUPINGS_MAX:
            raise self._refused(
                above,
                "GROUPING SETS",
                f"and ROLLUP and CUBE may be there {GROUPINGS_MAX} times",
                "cut the statement into two jobs",
            )

    _check_rollup = _check_groupingsets

    def _allow(self, name: str, allowed: frozenset[str], what: str, above: list[Any]) -> None:
        if name not in allowed:
            reason = REASONS.get(name, "is not among those that may be used")
            fix = "leave it out; docs/spark_operators.md lists what may be used"
            raise self._refused(above, f"{what} {name[:80]}", reason, fix)

    def _note_cast(self, child: Any, type_name: str) -> None:
        for kind, each in below(child):
            if kind == f"{CATALYST}analysis.UnresolvedAttribute":
                column = str(list(elements(each.nameParts()))[-1]).lower()
                self.judged.casts.add((column, type_name))

    def _refused(self, above: list[Any], what: str, reason: str, fix: str) -> SqlRefused:
        return SqlRefused(what, reason, origin(above), fix)
