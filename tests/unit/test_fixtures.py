"""Fixtures of DAGs: how they are read, compared and written anew. No Spark here."""

from __future__ import annotations

import json
import textwrap
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from trace_cli.fixtures.diff import compare
from trace_cli.main import app

DAG = """
version: 1
name: readings
jobs:
  - name: asked
    activation: source
    runtime: dispatcher
    operator: range_request
    source: { kind: manual }
    outputs: 1
  - name: chunks
    activation: reactive
    runtime: dispatcher
    operator: range_splitter
    execution_strategy: PerPartition
    inputs:
      - from: { job: asked, output: 0 }
    outputs: 1
    config: { chunk_size: 10 }
  - name: double
    activation: reactive
    runtime: worker
    operator: fixture_double
    execution_strategy: PerPartition
    inputs:
      - from: { job: chunks, output: 0 }
        as: given
        where: "number > 0"
    outputs: 1
    update_strategy: replace
    config: { factor: 2 }
"""
OPERATORS = """
from __future__ import annotations

import pyarrow as pa
from pydantic import Field

from trace_core.dag.catalog import OperatorSpec
from trace_core.dag.model import Activation, Column, Runtime, Storage
from trace_core.operators.api import Emit, OperatorFailed, Result, Rows
from trace_core.operators.configs import OperatorConfig


class DoubleConfig(OperatorConfig):
    factor: int = Field(ge=1)


class Double:
    def run(self, task):
        print("doubling", task.trigger.scope.range)
        found = task.read("given").to_pylist()
        if not found:
            raise OperatorFailed("nothing to double")
        rows = [
            {**each, "amount": str(int(each["amount"]) * task.config.factor)}
            for each in reversed(found)
        ]
        schema = pa.schema([("number", pa.int64()), ("amount", pa.string()), ("at", AT)])
        table = pa.Table.from_pylist(rows, schema=schema)
        return Result(outputs=[Rows(0, task.trigger.scope, table)])


AT = pa.timestamp("us", "UTC")
OPERATORS = [
    OperatorSpec(
        name="fixture_double",
        code_version="1",
        activations=frozenset({Activation.REACTIVE}),
        runtimes=frozenset({Runtime.WORKER}),
        config=DoubleConfig,
        description="Doubles.",
        implementation=f"{__name__}:Double",
        storage=Storage.S3,
        columns=(
            (
                Column("number", "bigint"),
                Column("amount", "numeric(78,0)"),
                Column("at", "timestamptz"),
            ),
        ),
    ),
]
"""
COLUMNS = "{ number: bigint, amount: 'numeric(78,0)', at: timestamptz }"


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "readings.dag.yaml").write_text(DAG)
        (root / "operators.py").write_text(OPERATORS)
        self.file = root / "readings.fixtures.yaml"

    def test(self, fixtures: str | None = None, *options: str) -> Result:
        if fixtures is not None:
            self.file.write_text(f"version: 1\nfixtures:\n{textwrap.indent(fixtures, '  ')}")
        arguments = ["test", str(self.root), "--operators", str(self.root / "operators.py")]
        return CliRunner().invoke(app, [*arguments, *options])


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.delenv("TRACE_OPERATOR_MODULES", raising=False)
    return Project(tmp_path)


def _double(expected: str, given: str = "") -> str:
    given = given or (
        "{ number: 1, amount: '4', at: 2026-01-01T00:00:00Z }, "
        "{ number: 2, amount: '5' }, { number: 0, amount: '9' }"
    )
    return f"""\
- name: doubled
  job: double
  scope: {{ start: 0, end: 9 }}
  inputs:
    given:
      columns: {COLUMNS}
      rows: [{given}]
  expect:
{textwrap.indent(textwrap.dedent(expected), "    ")}"""


GOOD = """
outputs:
  - rows:
      - { number: 2, amount: "10" }
      - { number: 1, amount: "8", at: "2026-01-01T01:00:00+01:00" }
"""


def test_rows_are_compared_in_any_order_behind_the_filter_of_the_input(project: Project) -> None:
    done = project.test(_double(GOOD))
    assert done.exit_code == 0, done.output
    assert "1 fixture, all as expected" in done.output


def test_numbers_of_256_bits_are_exact(project: Project) -> None:
    half, odd = str(2**255), str(2**255 - 1)
    rows = f"{{ number: 1, amount: '{half}' }}, {{ number: 2, amount: '{odd}' }}"
    expected = f"""
    outputs:
      - rows:
          - {{ number: 1, amount: "{2**256}" }}
          - {{ number: 2, amount: "{2**256 - 1}" }}
    """
    done = project.test(_double(expected, rows), "--json")
    assert done.exit_code == 1, "one bit is missing"
    [told] = json.loads(done.output)["fixtures"]
    [changed] = told["outputs"]["0"]["changed"]
    assert changed["columns"] == ["amount"]
    assert changed["found"]["amount"] == str(2**256 - 2)


def test_a_difference_shows_what_changed_what_is_missing_and_what_nobody_expected(
    project: Project,
) -> None:
    expected = """
    outputs:
      - rows:
          - { number: 2, amount: "11" }
          - { number: 3, amount: "70", at: 2026-02-01T00:00:00Z }
    """
    done = project.test(_double(expected))
    assert done.exit_code == 1
    assert "2 rows expected, 2 written: 1 changed, 1 missing, 1 unexpected" in done.output
    assert "11 -> 10" in done.output
    words = [line.split() for line in done.output.splitlines()]
    assert ["missing", "3", "70", "2026-02-01T00:00:00Z"] in words
    assert ["unexpected", "1", "8", "2026-01-01T00:00:00Z"] in words
    assert "doubling (0, 9)" in done.output, "what it printed helps to find out why"


def test_the_same_row_twice_is_two_rows() -> None:
    row = {"number": 1}
    diff = compare([row, row], [row])
    assert (diff.missing, diff.unexpected, diff.changed) == ([row], [], [])
    assert not compare([row, row], [row, row])


def test_one_is_not_true_and_not_a_text() -> None:
    for other in ("1", True, 1.0):
        assert compare([{"value": 1}], [{"value": other}])


def test_an_error_that_is_expected_is_no_failure_and_another_one_is(project: Project) -> None:
    empty = "{ number: 0, amount: '9' }"
    expected = "raises: { code: OperatorFailed, message: nothing to double }"
    assert project.test(_double(expected, empty)).exit_code == 0
    done = project.test(_double(expected.replace("nothing", "no"), empty))
    assert done.exit_code == 1
    assert "and failed with OperatorFailed: nothing to double" in done.output
    done = project.test(_double(expected))
    assert "it should have failed" in done.output
    done = project.test(_double(GOOD, empty))
    assert "it failed with OperatorFailed: nothing to double" in done.output


def test_no_outputs_means_that_no_row_may_be_written(project: Project) -> None:
    done = project.test(_double("outputs: []"))
    assert done.exit_code == 1
    assert "output 0: 0 rows expected, 2 written: 2 unexpected" in done.output


def test_a_name_that_no_fixture_has_is_an_error_and_not_a_pass(project: Project) -> None:
    done = project.test(_double(GOOD), "--only", "dobled")
    assert done.exit_code == 1
    assert "dobled" in str(done.exception)
    assert "doubled" in str(done.exception)


def test_an_operator_that_ends_the_process_has_failed(project: Project) -> None:
    file = project.root / "operators.py"
    left = file.read_text().replace(
        'raise OperatorFailed("nothing to double")', "raise SystemExit(0)"
    )
    file.write_text(left)
    done = project.test(_double(GOOD, "{ number: 0, amount: '9' }"))
    assert done.exit_code == 1
    assert "it failed with SystemExit: 0" in done.output


def test_events_of_control_work_are_compared(project: Project) -> None:
    fixture = """\
- name: split
  job: chunks
  scope: { start: 0, end: 14 }
  expect:
    events:
      - { start: 10, end: 14 }
      - { start: 0, end: 9 }
"""
    assert project.test(fixture).exit_code == 0
    done = project.test(fixture.replace("end: 9", "end: 8"))
    assert done.exit_code == 1
    assert "missing event: output 0, partition_key: 0-8, start: 0, end: 8" in done.output
    assert "unexpected event: output 0, partition_key: 0-9, start: 0, end: 9" in done.output


def test_a_fixture_that_expects_nothing_fails(project: Project) -> None:
    fixture = "- { name: empty, job: chunks, scope: { start: 0, end: 4 } }\n"
    done = project.test(fixture)
    assert done.exit_code == 1
    assert "expects nothing yet" in done.output


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("job: double", "job: duble", 4, "fixtures[0].job: the DAG has no job `duble`"),
        ("given:", "gven:", 7, "the job double has no input `gven`"),
        ("amount: '4'", "amount: 'x'", 9, "rows[0].amount: x is no numeric(78,0)"),
        ("number: 1,", "number: '1',", 9, "rows[0].number: 1 is no whole number"),
        ("number: 1,", "nmber: 1,", 9, "there is no column `nmber`"),
        ("start: 0", "start: 10", 5, "does not end before it starts"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00", 9, "says no time zone: add `Z` for UTC"),
        ("rows: [", "file: gone.csv # [", 9, "there is no file"),
        ("expect:", "expected:", 10, "did you mean `expect`?"),
    ],
)
def test_a_broken_fixture_is_told_with_file_line_field_and_reason(
    project: Project, old: str, new: str, line: int, told: str
) -> None:
    fixtures = _double(GOOD)
    assert old in fixtures
    done = project.test(fixtures.replace(old, new, 1))
    assert done.exit_code == 1
    assert told in done.output + done.stderr
    assert f"{project.file}:{line}:" in done.output + done.stderr


def test_update_writes_what_comes_out_and_leaves_the_rest_of_the_file(project: Project) -> None:
    expected = """
    # to be replaced
    outputs:
      - rows:
          - { number: 2, amount: "11" }
    """
    before = f"{_double(expected)}\n# about the next one\n" + textwrap.dedent("""\
        - name: split
          job: chunks
          scope: { start: 0, end: 14 }   # two chunks
        """)
    done = project.test(before, "--update")
    assert done.exit_code == 0, done.output
    assert "2 written anew" in done.output
    after = project.file.read_text()
    assert "# about the next one" in after
    assert "# two chunks" in after
    assert '- { number: 2, amount: "10", at: null }' in after
    assert '- { output: 0, partition_key: "0-9", start: 0, end: 9 }' in after
    done = project.test()
    assert done.exit_code == 0, done.output
    unchanged = project.test(None, "--update")
    assert unchanged.exit_code == 0
    assert project.file.read_text() == after


@pytest.mark.parametrize("suffix", ["csv", "yaml", "parquet"])
def test_rows_in_files_are_read_and_written_anew(project: Project, suffix: str) -> None:
    (project.root / "given.csv").write_text(f"number,amount,at\n1,{2**254},\n")
    fixture = f"""\
- name: doubled
  job: double
  scope: {{ start: 0, end: 9 }}
  inputs:
    given: {{ columns: {COLUMNS}, file: given.csv }}
  expect:
    outputs:
      - rows: []
"""
    assert project.test(fixture).exit_code == 1
    target = project.root / f"expected.{suffix}"
    target.write_bytes(b"" if suffix != "yaml" else b"[]")
    if suffix == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(
            pa.table(
                {
                    "number": pa.array([], pa.int64()),
                    "amount": pa.array([], pa.string()),
                    "at": pa.array([], pa.timestamp("us", "UTC")),
                }
            ),
            target,
        )
    with_file = fixture.replace("- rows: []", f"- file: expected.{suffix}")
    project.test(with_file, "--update")
    again = project.test()
    assert again.exit_code == 0, again.output
    if suffix != "parquet":
        assert str(2**255) in target.read_text()


def test_a_build_server_gets_junit(project: Project) -> None:
    report = project.root / "report.xml"
    project.test(_double(GOOD.replace('"8"', '"9"')), "--junit", str(report))
    [suite] = ET.parse(report).getroot()  # noqa: S314  # our own
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    [case] = suite
    assert (case.get("classname"), case.get("name")) == ("readings.double", "doubled")
    failure = case.find("failure")
    assert failure is not None
    assert "amount: 9 -> 8" in str(failure.text)


def test_no_fixtures_is_an_error_and_not_a_pass(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["test", str(tmp_path)])
    assert done.exit_code == 1
    assert "No fixtures found" in str(done.exception)


COPY = """
from __future__ import annotations

from trace_core.dag.catalog import OperatorSpec
from trace_core.dag.model import Activation, Column, Runtime, Storage
from trace_core.operators.api import Result, Rows
from trace_core.operators.configs import OperatorConfig


class Copy:
    def run(self, task):
        return Result(outputs=[Rows(0, task.trigger.scope, task.read("given"))])


class CopyConfig(OperatorConfig):
    factor: int


OPERATORS = [
    OperatorSpec(
        name="fixture_double",
        code_version="1",
        activations=frozenset({Activation.REACTIVE}),
        runtimes=frozenset({Runtime.WORKER}),
        config=CopyConfig,
        description="Copies.",
        implementation=f"{__name__}:Copy",
        storage=Storage.S3,
        columns=((Column("number", "bigint"), Column("body", "jsonb"), Column("word", "text")),),
    ),
]
"""


def _copied(file: str, expected: str) -> str:
    return f"""\
- name: copied
  job: double
  scope: {{ start: 0, end: 9 }}
  inputs:
    given: {{ columns: {{ number: bigint, body: jsonb, word: text }}, file: {file} }}
  expect:
    outputs:
      - {expected}
"""


@pytest.fixture
def copying(project: Project) -> Project:
    (project.root / "operators.py").write_text(COPY)
    (project.root / "data").mkdir()
    return project


def test_json_in_a_file_of_yaml_is_read_as_it_stands_there(copying: Project) -> None:
    (copying.root / "data" / "given.yaml").write_text('- { number: 1, body: { a: [1, "x"] } }\n')
    rows = "rows: [{ number: 1, body: { a: [1, x] } }]"
    done = copying.test(_copied("data/given.yaml", rows))
    assert done.exit_code == 0, done.output


def test_a_file_below_a_folder_is_written_anew_where_it_lies(copying: Project) -> None:
    (copying.root / "data" / "given.csv").write_text("number,word\n1,a\n")
    (copying.root / "data" / "expected.yaml").write_text("[]")
    copying.test(_copied("data/given.csv", "file: data/expected.yaml"), "--update")
    done = copying.test()
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("given.csv", b"number,word\n1,a,b\n", "line 2 has 3 values, and there are 2 columns"),
        ("given.csv", b"number,word\n1\n", "line 2 has 1 value, and there are 2 columns"),
        ("given.csv", b"number,number\n1,2\n", "names a column twice"),
        ("given.csv", b"number,word\n1,\xff\n", "is not UTF-8"),
        ("given.parquet", b"PAR1", "cannot be read"),
    ],
)
def test_a_broken_file_of_rows_is_told_and_nothing_of_it_is_passed_over(
    copying: Project, name: str, content: bytes, told: str
) -> None:
    (copying.root / "data" / name).write_bytes(content)
    done = copying.test(_copied(f"data/{name}", "rows: [{ number: 1, word: a }]"))
    assert done.exit_code == 1
    assert told in done.output, done.exception
    assert f"{copying.file}:" in done.output


def test_a_csv_file_of_a_spreadsheet_may_begin_with_a_mark(copying: Project) -> None:
    (copying.root / "data" / "given.csv").write_bytes(b"\xef\xbb\xbfnumber,word\r\n1,a\r\n\r\n")
    done = copying.test(_copied("data/given.csv", "rows: [{ number: 1, word: a }]"))
    assert done.exit_code == 0, done.output


def test_json_is_all_that_is_printed_for_scripts(copying: Project) -> None:
    (copying.root / "data" / "given.csv").write_text("number,word\n1,a\n")
    fixture = _copied("data/given.csv", "rows: []")
    done = copying.test(fixture, "--json", "--update")
    assert [each["updated"] for each in json.loads(done.stdout)["fixtures"]] == [True]


def test_fixtures_without_their_dag_are_an_error_and_not_passed_over(project: Project) -> None:
    (project.root / "reading.fixtures.yaml").write_text("version: 1\nfixtures: []\n")
    done = project.test(_double(GOOD))
    assert done.exit_code == 1
    assert "reading.fixtures.yaml has no DAG file" in str(done.exception)


def test_an_input_that_has_no_rows_and_no_columns_is_named(project: Project) -> None:
    fixture = (
        "- { name: bare, job: double, scope: { start: 0, end: 9 }, expect: { outputs: [] } }\n"
    )
    done = project.test(fixture)
    assert done.exit_code == 1
    assert "the fixture gives no rows for the input `given`" in done.output


def test_what_is_no_number_is_still_json() -> None:
    told = compare([{"ratio": float("nan")}], [{"ratio": float("inf")}]).as_json()
    assert json.loads(json.dumps(told, allow_nan=False))["missing"] == [{"ratio": "nan"}]
