"""Reading templates as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from infra.environments import ENVIRONMENTS
from infra.wildcards import rendered, stack_of

CLOUD = ("dev", "staging", "prod")
EVERYWHERE = tuple(ENVIRONMENTS)


@dataclass(frozen=True)
class Resource:
    stack: str
    logical_id: str
    kind: str
    body: dict[str, Any]

    @property
    def properties(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body.get("Properties", {})
        return found


class Templates:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def _all(self) -> dict[str, list[Resource]]:
        found: dict[str, list[Resource]] = {name: [] for name in ENVIRONMENTS}
        for file in sorted(self.folder.glob("*/*.template.json")):
            template = json.loads(file.read_text(encoding="utf-8"))
            found[file.parent.name] += [
                Resource(stack_of(file), logical_id, body["Type"], body)
                for logical_id, body in template["Resources"].items()
            ]
        return found

    def stacks(self, environment: str) -> set[str]:
        return {each.stack for each in self._all[environment]}

    def resources(self, environment: str, kind: str) -> list[Resource]:
        return [each for each in self._all[environment] if each.kind == kind]

    def functions(self, environment: str) -> dict[str, Resource]:
        """By the name that they have in the code."""
        prefix = f"trace-{environment}-"
        return {
            each.properties["FunctionName"].removeprefix(prefix): each
            for each in self.resources(environment, "AWS::Lambda::Function")
        }

    def role_of(self, environment: str, function: Resource) -> Resource:
        logical_id = function.properties["Role"]["Fn::GetAtt"][0]
        (role,) = [
            each
            for each in self.resources(environment, "AWS::IAM::Role")
            if each.logical_id == logical_id
        ]
        return role

    def grants(self, environment: str, function: Resource) -> Iterator[tuple[str, str]]:
        """Every action and resource that the function's role allows."""
        for policy in self.role_of(environment, function).properties["Policies"]:
            for statement in policy["PolicyDocument"]["Statement"]:
                if statement["Effect"] == "Allow":
                    for action in listed(statement["Action"]):
                        for resource in listed(statement["Resource"]):
                            yield action, rendered(resource)


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def queue_name(value: Any) -> str:
    return rendered(value).rsplit(":", 1)[-1]


def deployed(key: str) -> str:
    """For what is known only when it is deployed: a value of the right shape."""
    if key in ("TRACE_EMR_CODE", "TRACE_EMR_ENTRY_POINT", "TRACE_EMR_LOGS"):
        return "s3://bucket/some/key"
    address = key.endswith(("_URL", "_ISSUER"))
    return "https://abc.example.com/trace" if address else "arn:aws:x:y:z"
