"""The plan that Spark's parser makes, as Python meets it: which kinds of parts it may have, and how
to go through them.

What is not listed is refused: also what a later Spark brings, until somebody has looked at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from emr_jobs.sql_allowed import REASONS

DEPTH_MAX = 150

CATALYST = "org.apache.spark.sql.catalyst."
_PLANS = """
Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LocalLimit Offset
Pivot Project Sort SubqueryAlias Union UnresolvedHint UnresolvedWith Unpivot WithWindowDefinition
"""
_UNRESOLVED = """
MultiAlias UnresolvedAlias UnresolvedAttribute UnresolvedExtractValue UnresolvedFunction
UnresolvedGenerator UnresolvedHaving UnresolvedInlineTable UnresolvedRelation UnresolvedStar
UnresolvedStarExceptOrReplace UnresolvedSubqueryColumnAliases UnresolvedTVFAliases
UnresolvedTableValuedFunction
"""
_EXPRESSIONS = """
Add Alias And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Coalesce Concat
CreateNamedStruct Cube Divide EqualNullSafe EqualTo Exists GreaterThan GreaterThanOrEqual
GroupingSets ILike In InSubquery IntegralDivide IsNotNull IsNull LambdaFunction LateralSubquery
LessThan LessThanOrEqual Like LikeAll LikeAny ListQuery Lower Multiply NamedArgumentExpression Not
NotLikeAll NotLikeAny Or Overlay RLike Remainder Rollup ScalarSubquery ShiftLeft ShiftRight
ShiftRightUnsigned SortOrder SpecifiedWindowFrame StringLocate StringTrim StringTrimBoth
StringTrimLeft StringTrimRight Substring Subtract TimestampAdd TimestampDiff UnaryMinus
UnaryPositive UnresolvedNamedLambdaVariable UnresolvedWindowExpression WindowExpression
WindowSpecDefinition WindowSpecReference aggregate.AggregateExpression
"""
ORDERED = {"aggregate.First": "first", "aggregate.Last": "last"}
WALKED = {
    *(f"{CATALYST}plans.logical.{each}" for each in _PLANS.split()),
    *(f"{CATALYST}analysis.{each}" for each in _UNRESOLVED.split()),
    *(f"{CATALYST}expressions.{each}" for each in _EXPRESSIONS.split()),
    "scala.Some",
    "scala.Tuple2",
    "scala.Tuple3",
}
LEAVES = {
    *(
        f"{CATALYST}{each}"
        for each in [
            "AliasIdentifier",
            "FunctionIdentifier",
            "plans.logical.JoinHint",
            "expressions.Literal",
            "expressions.ExprId",
            "expressions.Ascending$",
            "expressions.Descending$",
            "expressions.NullsFirst$",
            "expressions.NullsLast$",
            "expressions.RowFrame$",
            "expressions.RangeFrame$",
            "expressions.CurrentRow$",
            "expressions.UnboundedFollowing$",
            "expressions.UnboundedPreceding$",
            "expressions.UnspecifiedFrame$",
            "expressions.aggregate.Complete$",
            "plans.Inner$",
            "plans.Cross$",
            "plans.LeftOuter$",
            "plans.RightOuter$",
            "plans.FullOuter$",
            "plans.LeftSemi$",
            "plans.LeftAnti$",
        ]
    ),
    "org.apache.spark.unsafe.types.UTF8String",
    "java.util.UUID",
    "scala.None$",
    "scala.Enumeration$Val",
}
ROWS = {
    # VALUES, whose literals the parser evaluated, and a SELECT without FROM.
    f"{CATALYST}plans.logical.LocalRelation",
    f"{CATALYST}plans.logical.OneRowRelation",
}
JOINS = {f"{CATALYST}plans.UsingJoin", f"{CATALYST}plans.NaturalJoin"}
TYPES = "org.apache.spark.sql.types."
COLLECTIONS = "scala.collection."

REASONS_OF_NODES = {
    "ScriptTransformation": ("TRANSFORM … USING", "it starts a program"),
    "Sample": ("TABLESAMPLE", "each run would take other rows"),
    "RelationTimeTravel": ("AS OF", "inputs are read at their pin"),
    "PlanWithUnresolvedIdentifier": ("IDENTIFIER()", "names are written out"),
    "ExpressionWithUnresolvedIdentifier": ("IDENTIFIER()", "names are written out"),
    "NamedParameter": ("a parameter", "nothing is filled in"),
    "PosParameter": ("a parameter", "nothing is filled in"),
    "RepartitionByExpression": ("DISTRIBUTE BY", "it moves rows and changes none"),
    "PipeOperator": ("|>", "pipes are not among what may be used"),
    "FunctionTableSubqueryArgumentExpression": ("TABLE()", "table functions take values only"),
    "First": ("first", REASONS["first"]),
    "Last": ("last", REASONS["last"]),
    "AnyValue": ("any_value", REASONS["any_value"]),
    "CurrentDate": ("current_date", REASONS["current_date"]),
    "CurrentTimestamp": ("current_timestamp", REASONS["current_timestamp"]),
    "CurrentUser": ("current_user", REASONS["current_user"]),
    "Collate": ("COLLATE", "text is compared byte by byte everywhere"),
}


def elements(collection: Any) -> Iterator[Any]:
    """Of a collection of Scala."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()


def below(node: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """A part that is not judged yet, with all that is in it; it may be as deep as it likes."""
    if not isinstance(node, JavaObject) or depth > DEPTH_MAX:
        return
    kind = node.getClass().getName()
    yield kind, node
    inside = elements(node) if kind.startswith(COLLECTIONS) else ()
    for each in fields_of(node) if kind in WALKED else inside:
        yield from below(each, depth + 1)


def fields_of(product: Any) -> list[Any]:
    return [product.productElement(at) for at in range(product.productArity())]


def origin(above: list[Any]) -> tuple[int, int] | None:
    """Where the innermost part with a place is, both counted from 1."""
    for node in reversed(above):
        if not node.getClass().getName().startswith(CATALYST):
            continue
        try:
            origin = node.origin()
        except Py4JError:
            # Names and modes have none.
            continue
        if origin.line().isDefined() and origin.startPosition().isDefined():
            return int(origin.line().get()), int(origin.startPosition().get()) + 1
    return None
