"""What cdk-nag and cfn-lint find and we keep, each with its reason. What is not here fails.

An exception that nothing needs any more fails too, so that this table stays true.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Kept:
    rule: str
    where: str
    """Stack and path of the constructs, with `*` for what varies."""
    reason: str

    def covers(self, rule: str, where: str) -> bool:
        # Brackets are part of rule names, so that they must not be taken for sets.
        return fnmatchcase(_plain(rule), _plain(self.rule)) and fnmatchcase(where, self.where)


def _plain(text: str) -> str:
    return text.replace("[", "(").replace("]", ")")


NAG = (
    Kept(
        "AwsSolutions-L1",
        "control_plane/*/Function/Resource",
        "3.12 is the newest Python that the project supports: Cryo and Spark have no newer one. "
        "`local` runs under the Python that deploys.",
    ),
    Kept(
        "AwsSolutions-APIG2",
        "control_plane/*Gateway/Api/Resource",
        "The functions validate every request themselves, in both profiles, and say what is wrong.",
    ),
    Kept(
        "AwsSolutions-APIG3",
        "control_plane/*Gateway/Api/DeploymentStage.trace/Resource",
        "Two of the APIs are private. The public one is throttled, and every route asks for a "
        "token; a firewall is for whoever runs the account to add.",
    ),
    Kept(
        "AwsSolutions-APIG4",
        "control_plane/*Gateway/Api/Default/*",
        "Tokens are verified by the functions, the same in both profiles; a second verifier "
        "could only disagree. The private APIs are also bound to their endpoint.",
    ),
    Kept(
        "AwsSolutions-COG4",
        "control_plane/*Gateway/Api/Default/*",
        "People come from an OIDC provider of the project's choice, not from Cognito.",
    ),
    Kept(
        "AwsSolutions-IAM4[*AmazonAPIGatewayPushToCloudWatchLogs]",
        "control_plane/GatewayLog/Resource",
        "API Gateway has one log role for an account and asks for just this policy.",
    ),
    Kept(
        "AwsSolutions-IAM5[*]",
        "control_plane/*/Role/Resource",
        "Every wildcard is listed in docs/reference/wildcards.md, with its reason; a test keeps "
        "the list complete.",
    ),
    Kept(
        "AwsSolutions-IAM5[*]",
        "control_plane/Operator/Resource",
        "The data of every org: each task gets this role narrowed to its own prefixes.",
    ),
    Kept(
        "AwsSolutions-IAM5[*]",
        "emr/Run/Resource",
        "The folders of every run: each run gets this role narrowed to its own.",
    ),
    Kept(
        "AwsSolutions-RDS3",
        "database/State/Resource",
        "dev has one zone: its data may be lost.",
    ),
    Kept(
        "AwsSolutions-RDS10",
        "database/State/Resource",
        "dev may be deleted; staging and prod are protected, and a test says so.",
    ),
    Kept(
        "AwsSolutions-RDS11",
        "database/*/Resource",
        "Only the groups that need it reach the port. Another number would hide nothing.",
    ),
    Kept(
        "AwsSolutions-SMG4",
        "storage/WorkerToken*/Resource",
        "A new token works after the next deploy has registered it; rotating it without one "
        "would lock the workers out.",
    ),
    Kept(
        "AwsSolutions-SMG4",
        "database/*/Secret/Resource",
        "Rotation needs a function with access to the database and to the secret. A runbook "
        "describes it by hand: docs/runbooks/database.md.",
    ),
)

LINT = (
    Kept("W3005", "*", "CDK states dependencies on roles that are implied already."),
    Kept(
        "W6001",
        "control_plane",
        "The address of a private API has the id of its endpoint in it, which is another stack's.",
    ),
)
