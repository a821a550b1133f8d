"""What EMR Serverless gets is enough, and needs the standard library and PySpark only."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import py4j
import pyspark
import pytest

from emr_jobs.session import java_home
from infra.emr_code import ENTRY_POINT, copy_code, modules
from tests.spark.runs import Place
from trace_core.spark.wire import LOG_NAME, SparkResult

OPERATOR = '''
import json

from emr_jobs.task import OperatorFailed
from own_operators.where import told


def run(task, io):
    """Rows that an executor made, which say where its code and Python came from."""
    config = task.config
    if config.get("fail"):
        raise OperatorFailed("no rows today")
    seen = io.spark.sparkContext.parallelize(range(2), 2).mapPartitions(told).collect()
    rows = io.read("rows")
    print("measured")
    io.write(0, rows.crossJoin(io.spark.createDataFrame([(json.dumps(seen),)], "seen string")))
'''
WHERE = """
import os
import sys


def told(rows):
    import emr_jobs.columns
    import own_operators

    number = sum(rows)
    origins = [emr_jobs.columns.__file__, own_operators.__file__]
    yield {"number": number, "pid": os.getpid(), "origins": origins, "path": sys.path}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A project's own package."""
    package = tmp_path / "project" / "own_operators"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "measure.py").write_text(OPERATOR)
    (package / "where.py").write_text(WHERE)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "measure.cpython-311.pyc").touch()
    return package


@pytest.fixture
def bare_python(tmp_path: Path) -> dict[str, str]:
    """An environment whose Python has PySpark and nothing else of what is installed here."""
    site = tmp_path / "site"
    site.mkdir()
    for package in (pyspark, py4j):
        folder = Path(str(package.__file__)).parent
        (site / folder.name).symlink_to(folder)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -P "$@"\n')
    python.chmod(0o755)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(site),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
    }


def test_every_module_is_imported_with_the_standard_library_and_pyspark_alone(
    tmp_path: Path, bare_python: dict[str, str]
) -> None:
    copy_code(tmp_path / "code")
    path = os.pathsep.join([str(tmp_path / "code"), bare_python["PYTHONPATH"]])
    told = subprocess.run(
        [
            *(bare_python["PYSPARK_PYTHON"], "-c"),
            f"import importlib\nfor each in {sorted(modules())!r}: importlib.import_module(each)",
        ],
        env={**bare_python, "PYTHONPATH": path},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert told.returncode == 0, told.stderr[-2000:]


def test_the_same_sources_give_the_same_files_and_nothing_that_was_compiled(
    tmp_path: Path, own: Path
) -> None:
    for name in ("one", "two"):
        copy_code(tmp_path / name, [own])
    files = [
        {
            str(each.relative_to(tmp_path / name)): each.read_bytes()
            for each in (tmp_path / name).rglob("*")
            if each.is_file()
        }
        for name in ("one", "two")
    ]
    assert files[0] == files[1]
    assert {"own_operators/measure.py", "emr_jobs/main.py", "trace_core/__init__.py"} <= set(
        files[0]
    )
    assert not [each for each in files[0] if not re.fullmatch(r"[\w/]+\.py", each)]


def test_a_package_with_the_name_of_one_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "emr_jobs").mkdir()
    with pytest.raises(ValueError, match="a package of the platform has this name"):
        copy_code(tmp_path / "code", [tmp_path / "emr_jobs"])


def test_spark_submit_runs_a_task_from_the_zip_and_the_entry_point_alone(
    tmp_path: Path, own: Path, bare_python: dict[str, str], place: Place
) -> None:
    copy_code(tmp_path / "code", [own])
    archive = shutil.make_archive(str(tmp_path / "trace"), "zip", tmp_path / "code")
    entry = tmp_path / "entry" / "main.py"
    entry.parent.mkdir()
    shutil.copyfile(ENTRY_POINT, entry)
    rows = [{"number": str(2**255)}, {"number": "7"}]
    payload = place.payload(
        "own_operators.measure:run",
        inputs=(place.input("rows", {"number": "numeric(78,0)"}, rows),),
    )
    given = tmp_path / "payload.json"
    given.write_text(json.dumps(payload.fields()))
    result = Path(payload.result_uri.removeprefix("file://"))
    result.parent.mkdir(parents=True)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "600m",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(tmp_path),
        "spark.submit.pyFiles": archive,
    }
    done = subprocess.run(
        [
            *(f"{bare_python['SPARK_HOME']}/bin/spark-submit", "--master"),
            "local-cluster[1,1,1024]",
            *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
            *(str(entry), f"file://{given}"),
        ],
        env={**bare_python, "SPARK_WORKER_DIR": str(tmp_path / "work")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = SparkResult.parse(json.loads(result.read_text()))
    assert told.failure is None
    assert result.with_name(LOG_NAME).read_text() == "measured\n"
    place.outputs = payload.outputs
    [written] = told.written
    found = place.rows_of(written)
    assert sorted(each["number"] for each in found) == sorted(each["number"] for each in rows)
    for seen in json.loads(found[0]["seen"]):
        for origin in seen["origins"]:
            assert ".zip/" in origin, "an executor took it from elsewhere"
        assert not [each for each in seen["path"] if each.endswith("site-packages")]
