"""What a run leaves when it cannot do its task, and payloads that are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emr_jobs import main
from emr_jobs.files import Files
from tests.spark.runs import Place
from trace_core.spark.wire import SparkFailure, SparkPayload, SparkResult

OPERATORS = "tests.spark.operators_for_tests"
BLOCKS = {"number": "bigint"}


def failure(place: Place, operator: str, **changes: Any) -> SparkFailure:
    given = place.input("rows", BLOCKS, [{"number": 4}])
    result = place.run(f"{OPERATORS}:{operator}", inputs=(given,), **changes)
    assert result.failure is not None
    assert (result.written, result.events, result.invalidations) == ((), (), ())
    return result.failure


def test_an_operator_says_itself_why_it_gave_up(place: Place) -> None:
    assert failure(place, "give_up") == SparkFailure(
        "LabelsAway", "the label service is away", True
    )


def test_a_number_that_does_not_fit_is_an_error_and_no_null(place: Place) -> None:
    found = failure(place, "overflow")
    assert "overflow" in found.message.lower()
    assert not found.retryable


def test_an_unknown_column_is_named(place: Place) -> None:
    found = failure(place, "unknown_column")
    assert (found.code, found.retryable) == ("AnalysisException", False)
    assert "nmber" in found.message


def test_secrets_do_not_leave_with_a_message(place: Place) -> None:
    found = failure(place, "leak")
    assert found.message == "no https://***@example.org/x?token=*** ***"


@pytest.mark.parametrize(
    ("operator", "told"),
    [
        ("leave", SparkFailure("SystemExit", "the operator called sys.exit(0)", False)),
        ("unsayable", SparkFailure("Unsayable", "Unsayable", False)),
        ("quote", SparkFailure("ValueError", "no name: \\ud800\\x00", False)),
    ],
)
def test_however_an_operator_ends_its_result_says_so(
    place: Place, operator: str, told: SparkFailure
) -> None:
    assert failure(place, operator) == told


@pytest.mark.parametrize(
    "implementation",
    [
        "emr_jobs.operators.nothing:run",
        f"{OPERATORS}:nothing",
        "nonsense",
        f"{OPERATORS}:OPERATORS",
    ],
)
def test_an_implementation_that_is_not_installed_is_named(
    place: Place, implementation: str
) -> None:
    result = place.run(implementation)
    assert result.failure is not None
    assert result.failure.code == "ImplementationMissing"
    assert implementation in result.failure.message


def test_a_setting_of_another_release_is_refused(place: Place) -> None:
    found = failure(place, "copy", config={"sort": ["number"]})
    assert (found.code, found.retryable) == ("ConfigInvalid", False)
    assert "there is no setting sort" in found.message


@pytest.mark.parametrize(
    "uri",
    [
        "file://{root}/staging/../elsewhere/",
        "file://{root}/staging/./0/",
        "file://{root}//staging/0/",
        "file://{root}/staging/0",
        "hdfs://elsewhere/staging/",
        "http://example.org/",
        "{root}/staging/",
        "file://{root}/results/",
        "file://{root}/objects/",
    ],
)
def test_an_output_that_reaches_elsewhere_is_refused(place: Place, uri: str) -> None:
    given = place.input("rows", BLOCKS, [{"number": 1}])
    output = replace(place.output(), uri=uri.format(root=place.root))
    before = sorted(place.root.rglob("*.parquet"))
    result = place.run(f"{OPERATORS}:copy", inputs=(given,), outputs=(output,))
    assert result.failure is not None
    assert result.failure.code == "PayloadInvalid"
    assert sorted(place.root.rglob("*.parquet")) == before


def test_two_outputs_in_one_folder_are_refused(place: Place) -> None:
    outer = place.output(0)
    inner = replace(place.output(1), uri=f"{outer.uri}deeper/")
    result = place.run(f"{OPERATORS}:copy", outputs=(outer, inner))
    assert result.failure is not None
    assert result.failure.code == "PayloadInvalid"


def test_a_payload_of_another_format_is_refused(place: Place) -> None:
    fields = {**place.payload(f"{OPERATORS}:copy").fields(), "format": 2}
    with pytest.raises(ValueError, match="this release reads 1"):
        SparkPayload.parse(fields)


def test_a_run_begins_with_the_address_of_its_payload(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    payload = place.payload(f"{OPERATORS}:give_up")
    files, uri = Files(place.spark), f"file://{place.root}/results/payload.json"
    files.write_json(uri, payload.fields())
    assert main.main(uri) == 1
    assert capsys.readouterr().err == "LabelsAway: the label service is away\n"
    found = SparkResult.parse(files.read_json(payload.result_uri))
    assert found.failure == SparkFailure("LabelsAway", "the label service is away", True)
    left = [path for path in Path(place.root, "results").rglob("*") if path.is_file()]
    assert sorted(path.name for path in left) == ["log.txt", "payload.json", "result.json"]
    [printed] = [path for path in left if path.name == "log.txt"]
    assert printed.parent == Path(payload.result_uri.removeprefix("file://")).parent
    assert printed.read_text() == "LabelsAway: the label service is away\n"


def test_a_log_that_cannot_be_kept_fails_no_run(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = place.input("rows", BLOCKS, [{"number": 4}])
    payload = place.payload(f"{OPERATORS}:copy", inputs=(given,))
    files, uri = Files(place.spark), f"file://{place.root}/results/payload.json"
    files.write_json(uri, payload.fields())

    def refuse(*_: object) -> None:
        raise OSError("slow down")

    monkeypatch.setattr(Files, "write_bytes", refuse)
    assert main.main(uri) == 0
    assert "slow down" in capsys.readouterr().err
    assert SparkResult.parse(files.read_json(payload.result_uri)).failure is None


def test_a_failure_does_not_tell_where_the_code_lies(place: Place) -> None:
    """Spark repeats the line of the operator that built the column, with its path."""
    rows = place.input("rows", {"number": "bigint"}, [{"number": 2**40}])
    failure = place.run(f"{OPERATORS}:overflow", inputs=(rows,)).failure
    assert failure is not None
    assert "overflow" in failure.message
    assert "called from" not in failure.message
    assert ".py" not in failure.message
