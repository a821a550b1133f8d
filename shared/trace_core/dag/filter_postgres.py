"""The filter tree -> a Postgres condition with named parameters (psycopg style)."""

from __future__ import annotations

from trace_core.dag.filters import (
    And,
    Between,
    Comparison,
    Literal,
    Membership,
    Not,
    NullTest,
    Operator,
    Or,
    Predicate,
    check_field,
)

_SQL_OPERATORS = {
    Operator.EQUAL: "=",
    Operator.NOT_EQUAL: "<>",
    Operator.LESS: "<",
    Operator.LESS_OR_EQUAL: "<=",
    Operator.GREATER: ">",
    Operator.GREATER_OR_EQUAL: ">=",
}


def to_postgres(
    predicate: Predicate, *, relation: str | None = None, prefix: str = "where_"
) -> tuple[str, dict[str, object]]:
    """The condition and its parameters, for example `("a" = %(where_0)s, {"where_0": 1})`.

    `relation` qualifies the columns; `prefix` keeps parameter names apart from the caller's own.
    """
    if relation is not None:
        check_field(relation)
    check_field(prefix)
    parameters: dict[str, object] = {}

    def parameter(value: Literal) -> str:
        name = f"{prefix}{len(parameters)}"
        parameters[name] = value
        return f"%({name})s"

    def column(name: str) -> str:
        # Checked where the tree is made, and again here, where it would matter.
        check_field(name)
        return f'"{relation}"."{name}"' if relation else f'"{name}"'

    def condition(part: Predicate) -> str:
        match part:
            case Comparison(name, operator, value):
                return f"{column(name)} {_SQL_OPERATORS[operator]} {parameter(value)}"
            case Membership(name, values, negated):
                # One parameter for each value: Postgres then gives each the column's type, which
                # an array of text would not get.
                listed = ", ".join([parameter(value) for value in values])
                return f"{column(name)} {'NOT IN' if negated else 'IN'} ({listed})"
            case Between(name, low, high):
                return f"{column(name)} BETWEEN {parameter(low)} AND {parameter(high)}"
            case NullTest(name, negated):
                return f"{column(name)} IS {'NOT NULL' if negated else 'NULL'}"
            case And(parts):
                return "(" + " AND ".join([condition(each) for each in parts]) + ")"
            case Or(parts):
                return "(" + " OR ".join([condition(each) for each in parts]) + ")"
            case Not(each):
                return f"(NOT {condition(each)})"

    return condition(predicate), parameters
