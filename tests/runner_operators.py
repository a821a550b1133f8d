"""PySpark operators that show what becomes of a run: they take long, fail, print, or hang on."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from emr_jobs.spark_io import SparkIO
from emr_jobs.task import OperatorFailed, SparkTask
from trace_core.kernel.scopes import Scope


def rows(task: SparkTask, io: SparkIO) -> None:
    """A hundred rows; each run of it leaves a mark."""
    if "mark" in task.config:
        with Path(task.config["mark"]).open("a", encoding="utf-8") as file:
            file.write("ran\n")
    io.write(0, io.spark.range(100).withColumnRenamed("id", "number"))


def announce(task: SparkTask, io: SparkIO) -> None:
    io.emit(0, Scope())


def talk(task: SparkTask, io: SparkIO) -> None:
    for number in range(int(task.config.get("lines", 3))):
        print(f"line {number} of {task.config['name']}")
        time.sleep(task.config.get("pause", 0))


def give_up(task: SparkTask, io: SparkIO) -> None:
    raise OperatorFailed("the labels are away", retryable=True, code="LabelsAway")


def fail_on_secrets(task: SparkTask, io: SparkIO) -> None:
    """In each way in which Spark says what it failed on; the word is in statements and in rows."""
    word = task.config["word"]
    given = io.spark.range(4).select(F.concat(F.lit(word), "id").alias("text"))
    given.createOrReplaceTempView("given")
    cast = f"SELECT CAST(text AS bigint) AS {word} FROM given"  # noqa: S608  # the test's own word
    failures = 0
    for attempt in (
        lambda: io.spark.sql(cast).collect(),
        lambda: io.write(0, io.spark.sql(cast)),
        lambda: io.spark.sql(cast.replace("text", "absent")).collect(),
        lambda: io.spark.sql(f"SELECT CAST('{word}' AS bigint)").collect(),
        lambda: given.select(F.col("text").cast("bigint")).collect(),
        lambda: given.select(F.udf(int, "bigint")("text")).collect(),
    ):
        try:
            attempt()
        except PySparkException:
            failures += 1
    print(f"{failures} failures")


def crunch(task: SparkTask, io: SparkIO) -> None:
    """Rows, and then Spark work that does not end."""
    rows(task, io)
    _endless(io)


def share_out(task: SparkTask, io: SparkIO) -> None:
    """Spark work that does not end, in threads of the operator's own."""
    tracker = io.spark.sparkContext.statusTracker()
    with ThreadPoolExecutor(2) as pool:
        shares = [pool.submit(_endless, io) for _ in range(2)]
        while len(tracker.getActiveStageIds()) < len(shares):
            time.sleep(0.05)
        Path(task.config["mark"]).touch()
        for each in shares:
            each.result()


def spin(task: SparkTask, io: SparkIO) -> None:
    """Python that waits for no Spark work."""
    while True:
        time.sleep(0.01)


def sleep_on(task: SparkTask, io: SparkIO) -> None:
    """Waits where no interrupt reaches it."""
    Path(task.config["mark"]).touch()
    time.sleep(600)


def hang_on(task: SparkTask, io: SparkIO) -> None:
    """Takes a cancelled job for one that is to be tried again."""
    while True:
        try:
            _endless(io)
        except Exception:
            print("again")


def idle_stages(task: SparkTask, io: SparkIO) -> None:
    """Fails as long as Spark works for somebody else."""
    tracker = io.spark.sparkContext.statusTracker()
    deadline = time.monotonic() + 5
    while tracker.getActiveStageIds():
        if time.monotonic() > deadline:
            raise OperatorFailed("stages of an ended run still work")
        time.sleep(0.05)


def own_view(task: SparkTask, io: SparkIO) -> None:
    """A view and a setting under a name that another run uses at the same time."""
    wanted = task.config["value"]
    io.spark.range(wanted).createOrReplaceTempView("mine")
    io.spark.conf.set("spark.sql.shuffle.partitions", str(wanted))
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        found = io.spark.sql("SELECT count(*) AS n FROM mine").collect()[0]["n"]
        if found != wanted or io.spark.conf.get("spark.sql.shuffle.partitions") != str(wanted):
            raise OperatorFailed(f"found {found} instead of {wanted}")


def own_table(task: SparkTask, io: SparkIO) -> None:
    """A table under a name that other runs use as well."""
    wanted = task.config["value"]
    io.spark.range(wanted).write.saveAsTable("mine")
    found = io.spark.table("mine").count()
    if found != wanted:
        raise OperatorFailed(f"found {found} instead of {wanted}")


def leave_behind(task: SparkTask, io: SparkIO) -> None:
    """A view for all sessions under a name that an earlier attempt used, and cached rows."""
    io.spark.range(3).cache().createGlobalTempView("everybodys")
    if task.config.get("fail"):
        raise OperatorFailed("halfway", retryable=True)


def out_of_memory(task: SparkTask, io: SparkIO) -> None:
    """Fills the Java machine with what it cannot give back."""
    jvm = io.spark._jvm
    kept = jvm.java.util.ArrayList()  # type: ignore[union-attr]
    while True:
        kept.add(jvm.java.lang.reflect.Array.newInstance(jvm.Long.TYPE, 2**24))  # type: ignore[union-attr]


def kill_runner(task: SparkTask, io: SparkIO) -> None:
    """As the kernel does when memory runs out: in the middle of a write."""
    rows(task, io)
    os.kill(os.getpid(), signal.SIGKILL)


def kill_java(task: SparkTask, io: SparkIO) -> None:
    rows(task, io)
    java = io.spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    os.kill(java.pid, signal.SIGKILL)
    rows(task, io)


def _endless(io: SparkIO) -> None:
    io.spark.range(10**15).selectExpr("sum(id % 7)").collect()
