"""The worker function has a way out to the upstreams of its environment, and else none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from infra.application import add_stacks, context
from infra.environments import ENVIRONMENTS
from infra.functions import FUNCTIONS, Place
from infra.stacks.network import NetworkStack
from trace_core.egress.model import read_upstreams
from trace_core.kernel.errors import Invalid

PROVIDER = {"url": "https://rpc.example/v2/{key}", "limits": {"requests_per_second": 25}}


def subnets(upstreams: Mapping[str, Mapping[str, Any]]) -> dict[Place, str]:
    environment = replace(ENVIRONMENTS["dev"], upstreams=upstreams)
    app = cdk.App(context=context())
    assert environment.network is not None
    stack = NetworkStack(app, "network", environment=environment, network=environment.network)
    return {place: str(stack.placement(place).subnets.subnet_type) for place in Place}


def test_only_where_there_are_upstreams_a_worker_stands_where_a_way_leads_out() -> None:
    isolated = {Place.CONTROL, Place.RUNNER, Place.WORKER}
    for upstreams, outside in (({}, set()), ({"node": PROVIDER}, {Place.WORKER})):
        found = subnets(upstreams)
        assert {place for place, kind in found.items() if "ISOLATED" in kind} == isolated - outside


def test_the_worker_and_nobody_else_is_told_of_the_upstreams() -> None:
    environment = replace(ENVIRONMENTS["dev"], upstreams={"node": PROVIDER})
    stacks = add_stacks(cdk.App(context=context()), environment)
    template = Template.from_stack(stacks["control_plane"]).to_json()
    told = {
        body["Properties"]["FunctionName"]: body["Properties"]["Environment"]["Variables"]
        for body in template["Resources"].values()
        if body["Type"] == "AWS::Lambda::Function"
    }
    assert len(told) == len(FUNCTIONS)
    given = {
        name: each["TRACE_UPSTREAMS"] for name, each in told.items() if "TRACE_UPSTREAMS" in each
    }
    assert list(given) == ["trace-dev-worker"]
    assert json.loads(given["trace-dev-worker"]) == {"node": PROVIDER}
    assert set(read_upstreams(given["trace-dev-worker"])) == {"node"}


def test_what_a_worker_would_refuse_is_refused_before_it_is_deployed() -> None:
    bad = {"node": {"url": "http://rpc.example/{key}"}}
    with pytest.raises(Invalid, match="https"):
        add_stacks(cdk.App(context=context()), replace(ENVIRONMENTS["dev"], upstreams=bad))
