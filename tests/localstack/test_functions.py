"""Functions run as in Lambda: by AWS's own runtime client, in a process of their own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.localstack.functions import ARCHITECTURE, archive, deployed
from tests.localstack.processes import gone, wait_until_gone
from tests.localstack_server import LocalStack

COUNTER = """
    import os
    calls = 0
    def handler(event, context):
        global calls
        calls += 1
        return {"calls": calls, "process": os.getpid(), "event": event}
"""


def test_invocation_gets_the_event_and_a_context_with_a_deadline(localstack: LocalStack) -> None:
    source = """
        def handler(event, context):
            left = context.get_remaining_time_in_millis()
            return [event, context.function_name, context.invoked_function_arn, left]
    """
    with deployed(localstack, source, timeout=7) as function:
        event, name, arn, left = function.invoke({"text": "Grüße", "list": [1, None]}).payload
    assert event == {"text": "Grüße", "list": [1, None]}
    assert (name, arn) == (function.name, function.arn)
    assert 4000 < left <= 7000


def test_second_invocation_finds_the_memory_of_the_first(localstack: LocalStack) -> None:
    with deployed(localstack, COUNTER) as function:
        first, second = function.invoke().payload, function.invoke().payload
    assert (first["calls"], second["calls"]) == (1, 2)
    assert first["process"] == second["process"]


def test_exception_is_reported_with_type_message_and_stack(localstack: LocalStack) -> None:
    source = """
        def handler(event, context):
            if event == "fail":
                raise KeyError("no such block")
            return "well"
    """
    with deployed(localstack, source) as function:
        failed = function.invoke("fail")
        assert failed.error == "Unhandled"
        assert failed.payload["errorType"] == "KeyError"
        assert failed.payload["errorMessage"] == "'no such block'"
        assert 'raise KeyError("no such block")' in "".join(failed.payload["stackTrace"])
        assert "[ERROR] KeyError" in failed.log
        assert function.invoke().payload == "well"


def test_timeout_kills_the_function_with_all_it_started_and_the_next_call_works(
    localstack: LocalStack,
) -> None:
    source = """
        import os, subprocess, time
        def handler(event, context):
            if event == "hang":
                started = subprocess.Popen(["sleep", "600"])
                print(f"processes {os.getpid()} {started.pid}")
                time.sleep(600)
            return os.getpid()
    """
    with deployed(localstack, source, timeout=1) as function:
        before = function.invoke().payload
        hung = function.invoke("hang")
        assert hung.error == "Unhandled"
        assert hung.payload["errorType"] == "Sandbox.Timedout"
        assert "Task timed out after 1.00 seconds" in hung.payload["errorMessage"]
        assert "Task timed out after 1.00 seconds" in hung.log
        line = next(line for line in hung.log.splitlines() if line.startswith("processes "))
        for process in map(int, line.split()[1:]):
            wait_until_gone(process)
        assert function.invoke().payload != before


def test_function_that_exits_is_reported_and_replaced(localstack: LocalStack) -> None:
    source = """
        import os
        def handler(event, context):
            if event == "exit":
                print("about to exit")
                os._exit(7)
            return "well"
    """
    with deployed(localstack, source) as function:
        gone = function.invoke("exit")
        assert gone.payload["errorType"] == "Runtime.ExitError"
        assert gone.payload["errorMessage"].endswith("exit status 7")
        assert "about to exit" in gone.log
        assert function.invoke().payload == "well"


def test_function_that_ended_between_calls_is_replaced_unnoticed(localstack: LocalStack) -> None:
    source = """
        import os, threading
        def handler(event, context):
            if event == "end soon":
                threading.Timer(0.2, os._exit, [3]).start()
            return os.getpid()
    """
    with deployed(localstack, source) as function:
        first = function.invoke("end soon").payload
        wait_until_gone(first)
        second = function.invoke()
    assert second.error is None
    assert second.payload != first


def test_failed_initialisation_fails_the_call_and_is_tried_again(
    localstack: LocalStack, tmp_path: Path
) -> None:
    source = f"""
        from pathlib import Path
        print("loading")
        if not Path({str(tmp_path)!r}, "ready").exists():
            raise RuntimeError("not configured")
        def handler(event, context):
            return "well"
    """
    with deployed(localstack, source) as function:
        for _ in range(2):
            failed = function.invoke()
            assert failed.error == "Unhandled"
            assert failed.payload["errorType"] == "RuntimeError"
            assert failed.payload["errorMessage"] == "not configured"
            assert failed.log.count("loading") == 1
        (tmp_path / "ready").touch()
        assert function.invoke().payload == "well"


def test_missing_module_is_an_import_error(localstack: LocalStack) -> None:
    with deployed(localstack, "import trace_core") as function:
        failed = function.invoke()
    assert failed.payload["errorType"] == "Runtime.ImportModuleError"
    assert "trace_core" in failed.payload["errorMessage"]


def test_environment_has_the_variables_and_the_credentials_of_the_role(
    localstack: LocalStack,
) -> None:
    source = """
        import os
        def handler(event, context):
            return dict(os.environ)
    """
    with deployed(localstack, source, variables={"TRACE_PROFILE": "aws"}) as function:
        found = function.invoke().payload
    assert found["TRACE_PROFILE"] == "aws"
    assert found["AWS_LAMBDA_FUNCTION_NAME"] == function.name
    assert found["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "256"
    assert found["AWS_ENDPOINT_URL"] == localstack.endpoint
    caller = localstack.session.client(
        "sts",
        aws_access_key_id=found["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=found["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=found["AWS_SESSION_TOKEN"],
    ).get_caller_identity()
    assert f":assumed-role/{function.name}/" in caller["Arn"]


def test_nothing_of_the_starter_leaks_into_a_function(localstack: LocalStack) -> None:
    source = """
        import importlib.util, os
        def handler(event, context):
            found = [name for name in event if importlib.util.find_spec(name)]
            return found, sorted(os.environ)
    """
    with deployed(localstack, source) as function:
        found, variables = function.invoke(["boto3", "localstack", "pydantic", "psutil"]).payload
    assert found == []
    assert not {"VIRTUAL_ENV", "PYTEST_CURRENT_TEST", "LAMBDA_PROCESS_PYTHON"} & set(variables)


def test_layers_are_importable_and_a_later_one_hides_an_earlier_one(
    localstack: LocalStack,
) -> None:
    client = localstack.session.client("lambda")
    deep = "python/lib/python3.11/site-packages"
    layers = [
        client.publish_layer_version(
            LayerName=localstack.name("layer"), Content={"ZipFile": archive(files)}
        )["LayerVersionArn"]
        for files in (
            {"python/greeting.py": "WORD = 'first'", "python/only_first.py": "WORD = 'one'"},
            {"python/greeting.py": "WORD = 'second'", f"{deep}/dep.py": ""},
        )
    ]
    source = """
        import dep, greeting, only_first
        def handler(event, context):
            return [greeting.WORD, only_first.WORD]
    """
    with deployed(localstack, source, layers=layers) as function:
        assert function.invoke().payload == ["second", "one"]


def test_concurrent_invocations_run_in_processes_of_their_own(
    localstack: LocalStack, tmp_path: Path
) -> None:
    source = """
        import os, pathlib, time
        def handler(event, context):
            # Each waits for all others: one after the other would never end.
            folder, mine = pathlib.Path(event["folder"]), str(os.getpid())
            (folder / mine).touch()
            while len(list(folder.iterdir())) < event["together"]:
                time.sleep(0.01)
            return mine
    """
    event = {"folder": str(tmp_path), "together": 4}
    with (
        deployed(localstack, source) as one,
        deployed(localstack, source) as other,
        ThreadPoolExecutor(4) as pool,
    ):
        answers = list(pool.map(lambda function: function.invoke(event), [one, one, other, other]))
    assert [answer.error for answer in answers] == [None] * 4
    assert len({answer.payload for answer in answers}) == 4


def test_update_ends_the_process_and_runs_the_new_code(localstack: LocalStack) -> None:
    client = localstack.session.client("lambda")
    with deployed(localstack, COUNTER) as function:
        old = function.invoke().payload["process"]
        code = archive({"main.py": "def handler(event, context): return 'new'"})
        client.update_function_code(
            FunctionName=function.name, ZipFile=code, Architectures=[ARCHITECTURE]
        )
        client.get_waiter("function_updated_v2").wait(
            FunctionName=function.name, WaiterConfig={"Delay": 1}
        )
        assert function.invoke().payload == "new"
        wait_until_gone(old)


def test_delete_ends_the_process(localstack: LocalStack) -> None:
    with deployed(localstack, COUNTER) as function:
        process = function.invoke().payload["process"]
        assert not gone(process)
    wait_until_gone(process)


def test_output_arrives_in_cloudwatch_logs(localstack: LocalStack) -> None:
    source = """
        import logging, sys
        logging.getLogger().setLevel("INFO")
        def handler(event, context):
            print("printed canary-4711")
            print("to stderr canary-4711", file=sys.stderr)
            logging.info("logged canary-4711")
            print("no line end", end="")
    """
    with deployed(localstack, source) as function:
        function.invoke()
        report = function.wait_for_log("REPORT RequestId")
        found = "".join(function.wait_for_log("canary-4711"))
    for words in ("printed canary-4711", "to stderr canary-4711", "[INFO]"):
        assert words in found
    assert "Memory Size: 256 MB" in report[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"Runtime": "nodejs20.x"}, "functions run here from a zip with python3.11"),
        (
            {"Architectures": ["x86_64" if ARCHITECTURE == "arm64" else "arm64"]},
            f"this machine runs {ARCHITECTURE}",
        ),
    ],
)
def test_what_cannot_run_here_fails_with_the_reason(
    localstack: LocalStack, changes: dict[str, object], reason: str
) -> None:
    client = localstack.session.client("lambda")
    wanted: dict[str, object] = {
        "FunctionName": localstack.name("function"),
        "Runtime": "python3.11",
        "Handler": "main.handler",
        "Role": "arn:aws:iam::000000000000:role/any",
        "Code": {"ZipFile": archive({"main.py": COUNTER})},
        "Architectures": [ARCHITECTURE],
    }
    made = client.create_function(**(wanted | changes))
    found = client.get_function_configuration(FunctionName=made["FunctionName"])
    assert found["State"] == "Failed"
    assert reason in found["StateReason"]
