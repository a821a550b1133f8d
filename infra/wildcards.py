"""Every wildcard that the stacks allow, with its reason: `python -m infra.wildcards` lists them.

An allowed action or resource with `*` or `?` in it. What AWS grants only for all resources at once
is unavoidable; everything else should be as narrow as its names allow.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SECRETS = "arn:<AWS::Partition>:secretsmanager:<region>:<AWS::AccountId>:secret:trace-<env>"

REASONS = {
    "xray:PutTelemetryRecords xray:PutTraceSegments on *": "X-Ray knows no narrower resource.",
    "ec2:AssignPrivateIpAddresses ec2:CreateNetworkInterface ec2:DeleteNetworkInterface "
    "ec2:DescribeNetworkInterfaces ec2:DescribeSubnets ec2:UnassignPrivateIpAddresses on *": (
        "Lambda attaches a function to the network with these, and asks for all interfaces. "
        "A second statement denies them to the function's own code."
    ),
    "s3:GetObject on <Objects.Arn>/org/*/logs/*": (
        "Logs of every org and task; the function looks the task up inside the caller's org first."
    ),
    "s3:AbortMultipartUpload s3:GetObject s3:PutObject on <Objects.Arn>/org/*/dataset/*": (
        "The operator role: data of every org. Only the task API assumes it, each time with a "
        "policy that names the prefixes of one attempt."
    ),
    "s3:GetObject on <Objects.Arn>/org/*/dataset/*": (
        "Rows of every org: manifests that a completion names, after its fence, and rows that a "
        "person may read."
    ),
    "s3:GetObject s3:PutObject on <Objects.Arn>/org/*/dataset/*": (
        "Rows of every task that a worker or runner may run: what it reads at its pin, and what it "
        "writes under the prefix of its attempt. Operator code in a worker has none of it."
    ),
    "s3:GetObject on arn:<AWS::Partition>:s3:::cdk-hnb659fds-assets-<AWS::AccountId>-<region>/*": (
        "Spark runs read the code that CDK published, also that of a former release while they "
        "last. It holds no secrets, and the policy of each run names two objects of it."
    ),
    "s3:AbortMultipartUpload s3:DeleteObject s3:GetObject s3:PutObject on "
    "<Objects.Arn>/org/*/run/*": (
        "The role of Spark runs: the folders of every run. Each is started with a policy that "
        "names its own."
    ),
    "s3:GetObject s3:PutObject on <Objects.Arn>/org/*/run/*": (
        "What every Spark run is given: its payload, and the rows that were exported for it."
    ),
    "s3:DeleteObject s3:GetObject on <Objects.Arn>/org/*/run/*": (
        "What every Spark run left: it is looked through, copied, and removed."
    ),
    "s3:PutObject on <Objects.Arn>/spark-logs/*": (
        "What Spark says about a run lies below the ids of application and run, which EMR chooses."
    ),
    "emr-serverless:CancelJobRun emr-serverless:GetJobRun on <Application.Arn>/jobruns/*": (
        "Every run of our own application; EMR chooses their ids."
    ),
    "emr-serverless:CancelJobRun emr-serverless:GetJobRun emr-serverless:TagResource on "
    "<Application.Arn>/jobruns/*": (
        "The same for who starts them: a run is tagged as it begins, before it has an id."
    ),
    "s3:DeleteObject on <Objects.Arn>/org/*/dataset/*/version/*/staging/*": (
        "What attempts left that were given up a week ago, and that no commit names."
    ),
    "s3:PutObject on <Objects.Arn>/org/*/logs/*": (
        "Logs of every org and task that a worker may run."
    ),
    f"secretsmanager:GetSecretValue on {_SECRETS}/user/*": (
        "Secrets that members write, and that worker pools hand to tasks by name. Those of the "
        "platform stand under another prefix."
    ),
    "secretsmanager:CreateSecret secretsmanager:DeleteSecret secretsmanager:PutSecretValue on "
    f"{_SECRETS}/user/*": "Secrets that members write, under names of their own.",
    "secretsmanager:ListSecrets on *": (
        "Secrets Manager knows no narrower resource. It answers names, never values; the function "
        "shows those of the caller's org."
    ),
    "secretsmanager:CreateSecret secretsmanager:GetSecretValue secretsmanager:PutSecretValue on "
    f"{_SECRETS}/platform/*/webhook_*": (
        "Each rotation of a webhook's secret makes one with an id of its own. Worker tokens have "
        "another name."
    ),
    f"secretsmanager:GetSecretValue on {_SECRETS}/state-??????": (
        "The secret of a database that is not ours is known by name; Secrets Manager adds six "
        "characters to it. Only in `local`."
    ),
    "execute-api:Invoke on execute-api:/*": (
        "Every path of the private API that the policy belongs to; a second statement denies all "
        "that does not come through its endpoint."
    ),
    "kms:CancelKeyDeletion kms:CreateAlias kms:DeleteAlias kms:DescribeKey kms:DisableKey "
    "kms:EnableKey kms:GetKeyPolicy kms:GetKeyRotationStatus kms:GetPublicKey "
    "kms:ListKeyPolicies kms:ListResourceTags kms:PutKeyPolicy kms:ScheduleKeyDeletion "
    "kms:TagResource kms:UntagResource kms:UpdateAlias kms:UpdateKeyDescription on *": (
        "In the policy of a key, `*` is that key."
    ),
    "kms:GetPublicKey kms:Sign on *": (
        "In the policy of a key, `*` is that key; a condition names the roles that may."
    ),
    "s3:PutObject on <AccessLog.Arn>/*": (
        "S3 writes access logs under names of its own; conditions name the bucket and account."
    ),
}


@dataclass(frozen=True)
class Wildcard:
    stack: str
    entity: str
    text: str
    """Actions and resource, without what differs between environments."""


def wildcards(stack: str, environment: str, template: Mapping[str, Any]) -> Iterator[Wildcard]:
    for entity, resource in template["Resources"].items():
        for statement in allowed(resource):
            actions = " ".join(sorted(_listed(statement.get("Action", []))))
            for given in _listed(statement.get("Resource", [])):
                target = rendered(given)
                if any(sign in actions + target for sign in "*?"):
                    text = _everywhere(f"{actions} on {target}", environment)
                    yield Wildcard(stack, _plain_name(entity), text)


def allowed(part: Any) -> Iterator[dict[str, Any]]:
    """Every statement that allows something, wherever in a resource it stands."""
    if isinstance(part, Mapping):
        if part.get("Effect") == "Allow" and "Action" in part:
            yield dict(part)
        for value in part.values():
            yield from allowed(value)
    elif isinstance(part, list):
        for value in part:
            yield from allowed(value)


def rendered(value: Any) -> str:
    """A value as text; what is known only when it is deployed stands in angle brackets."""
    match value:
        case str():
            return value
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(rendered(part) for part in parts)
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{([\w:]+)\}", r"<\1>", text)
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{_plain_name(name)}.{attribute}>"
        case {"Fn::ImportValue": name}:
            return f"<{_imported(str(name))}>"
        case {"Ref": name}:
            return f"<{name}>" if "::" in name else f"<{_plain_name(name)}>"
    return json.dumps(value, sort_keys=True)


def _imported(export: str) -> str:
    """The name and attribute behind an export of another stack, as CDK writes them."""
    _, _, name = re.sub(r"[0-9A-F]{8}$", "", export).partition(":ExportsOutput")
    if name.startswith("Ref"):
        return _plain_name(name.removeprefix("Ref"))
    found = re.fullmatch(r"FnGetAtt(\w+)[0-9A-F]{8}([A-Z][A-Za-z]*)", name)
    # What CloudFormation knows by the name that we gave it has no number of CDK's.
    found = found or re.fullmatch(r"FnGetAtt([A-Z][a-z]+)([A-Z][A-Za-z]*)", name)
    return f"{found[1]}.{found[2]}" if found else export


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _plain_name(logical_id: str) -> str:
    return re.sub(r"[0-9A-F]{8}$", "", logical_id)


def _everywhere(text: str, environment: str) -> str:
    text = text.replace(f"trace-{environment}", "trace-<env>")
    return re.sub(r"([:-])(?:[a-z]{2}-[a-z]+-\d|<AWS::Region>)(?=[:/])", r"\1<region>", text)


def found_in(folder: Path) -> dict[str, set[tuple[str, str]]]:
    """Wildcard -> the stacks and entities that have it, over all environments in a folder."""
    found: dict[str, set[tuple[str, str]]] = {}
    for file in sorted(folder.glob("*/*.template.json")):
        environment = file.parent.name
        stack = stack_of(file)
        template = json.loads(file.read_text(encoding="utf-8"))
        for each in wildcards(stack, environment, template):
            found.setdefault(each.text, set()).add((stack, each.entity))
    return found


def stack_of(file: Path) -> str:
    """`control_plane`, from the name of a template."""
    name = file.name.removesuffix(".template.json")
    return name.removeprefix(f"trace-{file.parent.name}-").replace("-", "_")


def page(folder: Path) -> str:
    lines = [
        "# Wildcards",
        "",
        "<!-- Made by `python -m infra.wildcards`; do not edit. -->",
        "",
        "Every allowed action or resource of the stacks with `*` or `?` in it, in any environment.",
        "No action has one. `tests/infra` fails when one is missing here or has no reason.",
        "",
        "| actions | resource | who | why |",
        "|---|---|---|---|",
    ]
    for text, owners in sorted(found_in(folder).items()):
        actions, _, resource = text.partition(" on ")
        names = ", ".join(f"{stack}: {name}" for stack, name in sorted(owners))
        shown = ", ".join(f"`{action}`" for action in actions.split())
        lines.append(f"| {shown} | `{resource}` | {names} | {REASONS.get(text, '**none**')} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    from infra.synth import assemble

    with tempfile.TemporaryDirectory() as folder:
        assemble(Path(folder), bundling=False)
        sys.stdout.write(page(Path(folder)))


if __name__ == "__main__":
    main()
