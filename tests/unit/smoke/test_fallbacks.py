"""What LocalStack has in name only: nothing unlisted, and nothing listed in vain."""

from __future__ import annotations

from infra.smoke.fallbacks import fallbacks, problems


def event(kind: str, reason: str | None = None) -> dict[str, str]:
    return {"ResourceType": kind, **({"ResourceStatusReason": reason} if reason else {})}


def said(kind: str) -> str:
    return f"Resource type {kind} is not supported but was deployed as a fallback"


def test_the_types_that_stack_events_call_a_fallback_are_found_once() -> None:
    gateway = "AWS::ApiGatewayV2::Api"
    events = [
        event("AWS::SQS::Queue"),
        event("AWS::CloudFormation::Stack", "User Initiated"),
        event(gateway, said(gateway)),
        event(gateway, said(gateway)),
    ]
    assert fallbacks(events) == {gateway}


def test_a_fallback_that_is_not_listed_is_a_problem() -> None:
    (problem,) = problems({"AWS::ApiGatewayV2::Api"}, {})
    assert "created AWS::ApiGatewayV2::Api as a fallback" in problem


def test_a_listed_type_that_is_no_fallback_any_more_is_a_problem() -> None:
    (problem,) = problems(set(), {"AWS::ApiGatewayV2::Api": "nobody calls it"})
    assert "no longer creates AWS::ApiGatewayV2::Api" in problem


def test_listed_fallbacks_that_occur_are_no_problem() -> None:
    found = {"AWS::ApiGatewayV2::Api"}
    assert list(problems(found, dict.fromkeys(found, "nobody calls it"))) == []
