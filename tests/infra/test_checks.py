"""cdk-nag and cfn-lint find nothing but what has a reason, and the exceptions are all needed."""

from __future__ import annotations

from pathlib import Path

from infra import exceptions, synth
from infra.exceptions import Kept
from infra.synth import Finding, unexpected, without_credentials


def test_both_tools_find_nothing_but_what_we_keep(assembly: Path) -> None:
    assert synth.problems(assembly) == []


def test_cdk_nag_looked_at_every_environment(assembly: Path) -> None:
    assert len(list(assembly.glob("*/validation-report.json"))) == 4
    assert len(list(synth.nag_findings(assembly))) > 50


def test_every_exception_has_a_reason() -> None:
    for kept in (*exceptions.NAG, *exceptions.LINT):
        assert len(kept.reason.split()) >= 5, kept.rule


def test_a_finding_without_an_exception_and_an_exception_without_a_finding_are_problems() -> None:
    found = [Finding("cdk-nag", "Rule-1[Resource::*]", "storage/Bucket/Resource", "open")]
    assert list(unexpected(found, (Kept("Rule-1[*]", "storage/*", "because"),))) == []
    assert list(unexpected(found, (Kept("Rule-1[*]", "database/*", "because"),))) == [
        "cdk-nag: Rule-1[Resource::*] at storage/Bucket/Resource: open",
        "exceptions.py: nothing needs Rule-1[*] at database/*",
    ]


def test_a_synth_sees_no_credentials() -> None:
    seen = without_credentials(
        {"PATH": "/bin", "AWS_PROFILE": "prod", "AWS_SECRET_ACCESS_KEY": "x", "CDK_HOME": "/x"}
    )
    assert seen["PATH"] == "/bin"
    assert not {"AWS_PROFILE", "AWS_SECRET_ACCESS_KEY", "CDK_HOME"} & set(seen)
    assert seen["AWS_SHARED_CREDENTIALS_FILE"] == "/dev/null"
