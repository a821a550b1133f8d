"""The plan that Spark has analyzed, as Python meets it: what somebody wrote, without what is below
the view of an input.

Spark tells it as JSON in one call; to look at each of its parts is thousands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from emr_jobs.sql_nodes import elements


@dataclass
class Expression:
    """A part of a plan that Spark told as JSON."""

    fields: Mapping[str, Any]
    children: list[Expression] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.fields["class"]).rpartition(".")[2]

    @property
    def number(self) -> int:
        told = self.fields.get("exprId")
        if isinstance(told, dict):
            return int(told["id"])
        # What Spark writes once and uses twice is counted apart.
        told = self.fields.get("id") if self.name.startswith("CommonExpression") else None
        return -2 - int(told["id"]) if isinstance(told, dict) else -1

    def below(self) -> Iterator[Expression]:
        """Itself and all that is in it, subqueries too."""
        yield self
        for child in self.children:
            yield from child.below()
        for value in self.fields.values():
            for tree in expressions_in(value):
                yield from tree.below()


def plan_nodes(plan: Any) -> Iterator[Any]:
    """Of what somebody wrote: what is below an input's view is ours."""
    yield plan
    if plan.getClass().getSimpleName() == "View":
        return
    for collection in (plan.children(), plan.subqueries()):
        for each in elements(collection):
            yield from plan_nodes(each)


def expressions(plan: Sequence[Mapping[str, Any]]) -> Iterator[Expression]:
    """All that somebody wrote into a plan, which is given as JSON."""
    for node in _written(plan):
        yield from _trees(node)


def _written(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The same of a plan as JSON, which lists nodes in pre-order."""
    hidden = 0
    for node in nodes:
        below = int(node["num-children"])
        if hidden:
            hidden += below - 1
            continue
        if str(node["class"]).endswith(".View"):
            hidden = below
        yield node


def _trees(node: Mapping[str, Any]) -> Iterator[Expression]:
    for value in node.values():
        yield from expressions_in(value)


def expressions_in(value: Any) -> Iterator[Expression]:
    """Expressions are lists in pre-order, wherever they stand in a node; so are subqueries."""
    if not isinstance(value, list) or not value:
        return
    first = value[0]
    if isinstance(first, dict) and "num-children" in first:
        if ".plans.logical." in first["class"]:
            yield from expressions(value)
        else:
            yield _tree(iter(value))
        return
    for each in value:
        yield from expressions_in(each)


def _tree(listed: Iterator[Mapping[str, Any]]) -> Expression:
    found = Expression(next(listed))
    for _ in range(int(found.fields["num-children"])):
        found.children.append(_tree(listed))
    return found
