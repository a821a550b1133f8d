"""Exact numbers of more than 38 digits are text to Spark, which would compare them letter by letter
and add them as doubles. What would give a wrong number is refused before it runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from pyspark.sql import DataFrame

from emr_jobs.columns import TYPE_KEY, is_exact_text
from emr_jobs.sql_expressions import Expression, expressions, expressions_in, plan_nodes
from emr_jobs.sql_nodes import elements
from emr_jobs.sql_text import SqlRefused

_FIX = (
    "write CAST(… AS decimal(38,0)), which fails above 38 digits, or TRY_CAST for NULL there; the "
    "operator rollup adds and compares without a limit"
)
_BY_ORDER = {
    "SortOrder": "ORDER BY",
    "Max": "max",
    "Min": "min",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "Greatest": "greatest",
    "Least": "least",
    "MaxBy": "max_by",
    "MinBy": "min_by",
    "Mode": "mode",
    "SortArray": "sort_array",
    "ArrayMax": "array_max",
    "ArrayMin": "array_min",
}
_SECOND_ONLY = ("MaxBy", "MinBy")
_PICKED_FROM: dict[str, slice] = {
    **dict.fromkeys(("Coalesce", "Lag", "Lead"), slice(None)),
    **dict.fromkeys(
        (
            "Alias",
            "OuterReference",
            "AggregateExpression",
            "WindowExpression",
            "CommonExpressionDef",
        ),
        slice(1),
    ),
    **dict.fromkeys(("First", "Last", "AnyValue", "NthValue", "MaxBy", "MinBy", "With"), slice(1)),
    # What Spark puts in their place.
    **dict.fromkeys(("Nvl", "Nvl2", "NullIf", "NullIfZero", "ZeroIfNull"), slice(1)),
    "If": slice(1, None),
}
"""Parts of which an expression is one, as it is: Spark keeps no metadata there, but the digits are
those of the column."""


def check_exact_numbers(rows: DataFrame, casts: Set[tuple[str, str]]) -> None:
    """Raise `SqlRefused` where a column of exact text is used as a number.

    `casts` are (column, type) of casts that somebody wrote: all others are Spark's own doing.
    """
    plan = rows._jdf.queryExecution().analyzed()
    exact = _exact_attributes(plan)
    if not exact:
        return
    trees = list(expressions(json.loads(plan.toJSON())))
    passed = list(_passed_on(plan))
    while any(_renamed(tree, exact) for tree in trees) or _reached(passed, exact):
        pass
    for tree in trees:
        _check(tree, exact, casts)


def _exact_attributes(plan: Any) -> dict[int, str]:
    """Attributes with a type of ours, of inputs, of WITH and of UNION, by their number."""
    found: dict[int, str] = {}
    for node in plan_nodes(plan):
        name = node.getClass().getSimpleName()
        if name == "Union":
            _check_union(node)
        if name in ("View", "CTERelationRef", "Union"):
            for attribute, told in zip(elements(node.output()), _types(node), strict=True):
                if told:
                    found[int(attribute.exprId().id())] = str(attribute.name())
    return found


def _passed_on(plan: Any) -> Iterator[tuple[int, int, str]]:
    """Where a node gives a column another number: the old one, the new one, its name."""
    nodes = list(plan_nodes(plan))
    tables = {
        int(each.id()): each
        for each in nodes
        if each.getClass().getSimpleName() == "CTERelationDef"
    }
    for node in nodes:
        name = node.getClass().getSimpleName()
        if name == "Union":
            sources = [list(elements(each.output())) for each in elements(node.children())]
        elif name == "CTERelationRef":
            sources = [list(elements(tables[int(node.cteId())].output()))]
        elif name == "Expand":
            # Of UNPIVOT, CUBE and their like.
            sources = [list(elements(each)) for each in elements(node.projections())]
        elif name == "Generate":
            yield from _made_rows(node)
            continue
        else:
            continue
        for source in sources:
            for old, new in zip(source, elements(node.output()), strict=True):
                yield from _link(old, new)


def _made_rows(node: Any) -> Iterator[tuple[int, int, str]]:
    """The columns of `stack`, and that of `explode(array(…))`."""
    generator, made = node.generator(), list(elements(node.generatorOutput()))
    given = list(elements(generator.children()))
    name = generator.getClass().getSimpleName()
    if name == "Stack":
        for at, value in enumerate(given[1:]):
            yield from _link(value, made[at % len(made)])
    elif "Explode" in name and given[0].getClass().getSimpleName() == "CreateArray":
        for value in elements(given[0].children()):
            yield from _link(value, made[-1])


def _link(old: Any, new: Any) -> Iterator[tuple[int, int, str]]:
    if old.getClass().getSimpleName() in ("AttributeReference", "OuterReference"):
        yield int(old.exprId().id()), int(new.exprId().id()), str(new.name())


def _reached(passed: Sequence[tuple[int, int, str]], exact: dict[int, str]) -> bool:
    found = {new: name for old, new, name in passed if old in exact and new not in exact}
    exact.update(found)
    return bool(found)


def _renamed(expression: Expression, exact: dict[int, str]) -> bool:
    """Note what is such an attribute under another name; says whether there was a new one."""
    found = False
    for each in expression.below():
        if each.name not in ("Alias", "CommonExpressionDef") or each.number in exact:
            continue
        column = _exact(each, exact)
        if column is not None:
            exact[each.number] = str(each.fields.get("name", column))
            found = True
    return found


def _check(expression: Expression, exact: Mapping[int, str], casts: Set[tuple[str, str]]) -> None:
    for each in expression.below():
        for at, child in enumerate(each.children):
            column = _exact(child, exact)
            if column is None and each.name in _BY_ORDER:
                inside = (_exact(one, exact) for one in _ordered_first(each.name, child))
                column = next((one for one in inside if one is not None), None)
            if column is not None:
                _check_use(each, at, column, casts)


def _ordered_first(name: str, expression: Expression) -> Sequence[Expression]:
    """What decides first where a struct or an array is compared."""
    children = expression.children
    if expression.name == "CreateNamedStruct":
        return children[1:2]
    if name not in ("ArrayMax", "ArrayMin"):
        return ()
    if expression.name == "AggregateExpression":
        [gathered] = children[:1]
        return gathered.children[:1] if gathered.name in ("CollectList", "CollectSet") else ()
    return children if expression.name == "CreateArray" else ()


def _check_use(expression: Expression, at: int, column: str, casts: Set[tuple[str, str]]) -> None:
    name = expression.name
    if name in _BY_ORDER and not (name in _SECOND_ONLY and at == 0):
        raise _refused(
            f"{_BY_ORDER[name]} of {column}", "would order an exact number as text", _FIX
        )
    if name == "Cast":
        wanted = str(expression.fields.get("dataType")).strip('"')
        if wanted != "string" and (column.lower(), wanted) not in casts:
            raise _refused(
                f"{column} as a number", f"would become a {wanted} and lose digits", _FIX
            )


def _exact(expression: Expression, exact: Mapping[int, str]) -> str | None:
    """The column of exact text that an expression is, or picks."""
    if expression.name in ("AttributeReference", "CommonExpressionRef"):
        return exact.get(expression.number)
    picked = (_exact(each, exact) for each in _picked(expression))
    return next((each for each in picked if each is not None), None)


def _picked(expression: Expression) -> Sequence[Expression]:
    children = expression.children
    if expression.name == "CaseWhen":
        # Conditions and values in turn, and what is left over is that of ELSE.
        return [*children[1::2], *children[len(children) // 2 * 2 :]]
    if expression.name == "ScalarSubquery":
        return _columns(expression.fields.get("plan"))[:1]
    if expression.name == "OuterReference":
        return list(expressions_in(expression.fields.get("e")))
    part = _PICKED_FROM.get(expression.name)
    return children[part] if part is not None else ()


def _columns(nodes: Any) -> Sequence[Expression]:
    """The columns of a subquery: of the first of its nodes that makes some."""
    for node in nodes if isinstance(nodes, list) else ():
        made = node.get("projectList", node.get("aggregateExpressions"))
        if made is not None:
            return [tree for each in made for tree in expressions_in(each)]
    return ()


def _check_union(node: Any) -> None:
    """The first branch names the types of a UNION: the others must mean the same."""
    types = [_types(each) for each in elements(node.children())]
    for at, told in enumerate(zip(*types, strict=True)):
        exact = sorted({each for each in told if each})
        if exact and len(set(told)) > 1:
            name = node.output().apply(at).name()
            raise _refused(
                f"{name} in UNION",
                f"is {exact[0]} in one part and something else in another",
                "CAST it AS string in each part, and give its type under `types`",
            )


def _types(plan: Any) -> Sequence[str]:
    found = []
    for attribute in elements(plan.output()):
        told = json.loads(attribute.metadata().json()).get(TYPE_KEY, "")
        found.append(told if told and is_exact_text(told) else "")
    return found


def _refused(what: str, reason: str, fix: str) -> SqlRefused:
    return SqlRefused(what, reason, None, fix)
