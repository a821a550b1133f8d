"""A function that nobody named is not pushed, and that is no fault."""

from __future__ import annotations

import boto3
import pytest

from trace_core.adapters.aws.lambda_functions import LambdaWaker
from trace_core.ports.waker import Function


@pytest.mark.parametrize("function", Function)
def test_a_function_without_a_name_is_left_to_its_schedule(
    function: Function, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    client = boto3.client(
        "lambda", region_name="eu-central-1", endpoint_url="http://nowhere.invalid"
    )
    LambdaWaker(client, {}).wake(function)
    assert caplog.records == []
