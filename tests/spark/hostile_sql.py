"""Statements that must not run, each with what its refusal must say."""

# ruff: noqa: S608

from __future__ import annotations

DEEP = "(" * 60 + "1" + ")" * 60
LAUGHS = ", ".join(
    f"c{at} AS (SELECT x.n FROM c{at - 1} x CROSS JOIN c{at - 1} y)" for at in range(1, 30)
)

HOSTILE: dict[str, tuple[str, str]] = {
    # Files and tables
    "a file by its format": ("SELECT * FROM parquet.`/etc/passwd`", "relation parquet./etc/passwd"),
    "a text file": ("SELECT * FROM text.`file:///etc/passwd`", "relation text.file"),
    "a file in a join": ("SELECT * FROM logs JOIN csv.`/x` c ON true", "relation csv./x"),
    "a file after a comma": ("SELECT * FROM logs, json.`/x`", "relation json./x"),
    "a file in a subquery": (
        "SELECT (SELECT max(value) FROM orc.`s3://other/x`) AS m FROM logs",
        "relation orc.s3://other/x",
    ),
    "a file in EXISTS": (
        "SELECT 1 AS n FROM logs WHERE EXISTS (SELECT 1 FROM binaryFile.`/x`)",
        "relation binaryFile./x",
    ),
    "a file in a WITH": ("WITH a AS (SELECT * FROM text.`/x`) SELECT * FROM a", "text./x"),
    "a file behind a hint": ("SELECT /*+ BROADCAST(a) */ * FROM text.`/x` a", "text./x"),
    "a file in a lateral join": ("SELECT * FROM logs, LATERAL (SELECT * FROM text.`/x`)", "text"),
    "another table": ("SELECT * FROM secrets", "relation secrets"),
    "another table behind an alias": ("SELECT * FROM secrets AS logs", "relation secrets"),
    "a table of another catalog": ("SELECT * FROM spark_catalog.default.logs", "spark_catalog"),
    "a database": ("SELECT * FROM default.logs", "relation default.logs"),
    "global views": ("SELECT * FROM global_temp.logs", "relation global_temp.logs"),
    "a name of a WITH outside of it": (
        "SELECT * FROM (WITH hidden AS (SELECT 1 AS n) SELECT * FROM hidden) a, hidden",
        "relation hidden",
    ),
    "a WITH that reads itself": ("WITH a AS (SELECT * FROM a) SELECT * FROM a", "relation a"),
    "TABLE": ("TABLE secrets", "relation secrets"),
    "a name made of text": ("SELECT * FROM IDENTIFIER('se' || 'crets')", "IDENTIFIER()"),
    "a function name made of text": ("SELECT IDENTIFIER('ref' || 'lect')(1) AS x", "IDENTIFIER()"),
    "an older version": ("SELECT * FROM logs VERSION AS OF 1", "AS OF"),
    "an older time": ("SELECT * FROM logs TIMESTAMP AS OF '2020-01-01'", "AS OF"),
    "options of a relation": ("SELECT * FROM logs WITH (path = '/x')", "takes no options"),
    "a stream": ("SELECT * FROM STREAM logs", "STREAM"),
    "where a row lies": ("SELECT _metadata.file_path AS p FROM logs", "_metadata"),
    "where a row lies, by its input": ("SELECT logs._metadata AS p FROM logs", "_metadata"),
    "the name of the file": ("SELECT input_file_name() AS p FROM logs", "input_file_name"),
    # Code
    "reflect": ("SELECT reflect('java.lang.System', 'exit', 0) AS x", "function reflect"),
    "java_method": ("SELECT java_method('java.util.UUID', 'randomUUID') AS x", "java_method"),
    "try_reflect": ("SELECT try_reflect('java.lang.System', 'exit') AS x", "try_reflect"),
    "reflect in quotes": ("SELECT `reflect`('a', 'b') AS x FROM logs", "function reflect"),
    "reflect in capitals": ("SELECT REFLECT('a', 'b') AS x FROM logs", "function reflect"),
    "reflect after a comment": ("SELECT reflect/**/('a', 'b') AS x", "function reflect"),
    "reflect in a lambda": (
        "SELECT transform(array(1), x -> reflect('a', 'b')) AS x FROM logs",
        "function reflect",
    ),
    "reflect in an order": ("SELECT 1 AS n FROM logs ORDER BY reflect('a', 'b')", "reflect"),
    "reflect in a window": (
        "SELECT sum(block_number) OVER w AS n FROM logs WINDOW w AS "
        "(PARTITION BY reflect('a', 'b'))",
        "reflect",
    ),
    "reflect in VALUES": ("SELECT * FROM VALUES (reflect('a', 'b')) AS t(x)", "reflect"),
    "reflect in a join": ("SELECT 1 AS n FROM logs a JOIN logs b ON reflect('a', 'b')", "reflect"),
    "reflect in a filter": ("SELECT count(*) FILTER (WHERE reflect('a','b')) AS n", "reflect"),
    "reflect by its catalog": ("SELECT builtin.reflect('a', 'b') AS x FROM logs", "reflect"),
    "a function of a database": ("SELECT default.mine(1) AS x FROM logs", "default.mine"),
    "a program": ("SELECT TRANSFORM(address) USING 'cat' AS (x) FROM logs", "TRANSFORM"),
    "a program by MAP": ("FROM logs MAP address USING 'sh -c id' AS (x)", "TRANSFORM"),
    "a program by REDUCE": ("FROM logs REDUCE address USING 'sh' AS (x)", "TRANSFORM"),
    "a descriptor file": ("SELECT from_protobuf(address, 'M', '/x') AS x FROM logs", "protobuf"),
    "keys": ("SELECT aes_decrypt(address, 'k') AS x FROM logs", "aes_decrypt"),
    "an unknown function": ("SELECT mine(1) AS x FROM logs", "function mine"),
    "an unknown table function": ("SELECT * FROM python_worker_logs()", "python_worker_logs"),
    "a table as an argument": ("SELECT * FROM mine(TABLE(logs))", "mine"),
    "files by a table function": ("SELECT * FROM read_files('/x')", "read_files"),
    "a generator in a LATERAL VIEW": (
        "SELECT * FROM logs LATERAL VIEW mine(address) t AS x",
        "mine",
    ),
    # Statements
    "two statements": ("SELECT 1 AS n; DROP TABLE logs", "one statement"),
    "a statement in a second line": ("SELECT 1 AS n;\nADD JAR '/x.jar'", "one statement"),
    "ADD JAR": ("ADD JAR '/x.jar'", "no command"),
    "CREATE": ("CREATE TABLE x AS SELECT 1 AS n", "no command"),
    "CREATE FUNCTION": ("CREATE TEMPORARY FUNCTION f AS 'a.B' USING JAR '/x'", "no command"),
    "INSERT": ("INSERT INTO logs SELECT 1", "no command"),
    "INSERT to a folder": ("INSERT OVERWRITE DIRECTORY '/x' SELECT 1", "no command"),
    "INSERT after FROM": ("FROM logs INSERT INTO secrets SELECT *", "InsertIntoStatement"),
    "INSERT after WITH": ("WITH a AS (SELECT 1) INSERT INTO secrets SELECT * FROM a", "Insert"),
    "SET": ("SET spark.sql.variable.substitute=true", "no command"),
    "EXPLAIN": ("EXPLAIN SELECT 1", "no command"),
    "CACHE": ("CACHE TABLE logs", "no command"),
    "SHOW": ("SHOW TABLES", "no command"),
    "DESCRIBE": ("DESCRIBE logs", "no command"),
    "EXECUTE IMMEDIATE": ("EXECUTE IMMEDIATE 'DROP TABLE logs'", "no command"),
    "DECLARE": ("DECLARE x INT DEFAULT 1", "no command"),
    "a script": ("BEGIN SELECT 1; END", "no command"),
    "a comment before a command": ("/* SELECT */ DROP TABLE logs", "no command"),
    "a pipe": ("FROM logs |> WHERE block_number > 1", "|>"),
    # The session and its surroundings
    "a variable of the environment": ("SELECT '${env:HOME}' AS x FROM logs", "variables"),
    "a setting": ("SELECT '${spark.driver.host}' AS x FROM logs", "variables"),
    "a session variable": ("SELECT session.x AS x FROM logs", "variables"),
    "a variable of the system": ("SELECT system.session.x AS x FROM logs", "variables"),
    "a parameter": ("SELECT :x AS x FROM logs", "parameter"),
    "a positional parameter": ("SELECT ? AS x FROM logs", "parameter"),
    "the user": ("SELECT current_user() AS x FROM logs", "current_user"),
    "the user without brackets": ("SELECT current_user AS x FROM logs", "current_user"),
    "the user by a short name": ("SELECT user AS x FROM logs", "user"),
    "the catalog": ("SELECT current_catalog() AS x FROM logs", "current_catalog"),
    "the version": ("SELECT version() AS x FROM logs", "version"),
    # What differs from run to run
    "now": ("SELECT now() AS x FROM logs", "differs from run to run"),
    "the current time": ("SELECT current_timestamp AS x FROM logs", "differs from run to run"),
    "the current date": ("SELECT CURRENT_DATE AS x FROM logs", "differs from run to run"),
    "a clock in a literal": ("SELECT timestamp 'now' AS x FROM logs", "not written as a date"),
    "a clock in capitals": ("SELECT DATE ' Today ' AS x FROM logs", "not written as a date"),
    "a clock in escapes": (r"SELECT date 't\u006fday' AS x FROM logs", "not written as a date"),
    "a clock behind a hint in a comment": (
        "SELECT /* /*+ */ timestamp 'now' AS x FROM logs -- */",
        "not written as a date",
    ),
    "a clock behind a raw text": (
        r"SELECT r'\' AS a, timestamp 'now' AS x FROM logs -- '",
        "not written as a date",
    ),
    "a clock behind a raw text in double quotes": (
        r'SELECT R"\" AS a, timestamp "now" AS x FROM logs -- "',
        "not written as a date",
    ),
    "a clock behind a comment that goes on": (
        "SELECT -- \\\n'\ntimestamp 'now' AS x FROM logs -- '",
        "not written as a date",
    ),
    "a time without a day": ("SELECT timestamp '12:00:00' AS x", "not written as a date"),
    "chance": ("SELECT rand() AS x FROM logs", "differs from run to run"),
    "uuid": ("SELECT uuid() AS x FROM logs", "differs from run to run"),
    "shuffle": ("SELECT shuffle(array(1, 2)) AS x FROM logs", "differs from run to run"),
    "a number of the row": ("SELECT monotonically_increasing_id() AS x FROM logs", "differs"),
    "a sample": ("SELECT * FROM logs TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
    "a sample of rows": ("SELECT * FROM logs TABLESAMPLE (10 ROWS)", "LIMIT"),
    "LIMIT without an order": ("SELECT * FROM logs LIMIT 3", "LIMIT"),
    "OFFSET without an order": ("SELECT * FROM logs OFFSET 3", "OFFSET"),
    "OFFSET of a subquery": (
        "SELECT * FROM (SELECT * FROM logs OFFSET 3) ORDER BY address",
        "without an order",
    ),
    "the first of any order": ("SELECT first(address) AS x FROM logs", "first"),
    "the first of a window without an order": (
        "SELECT first_value(address) OVER (PARTITION BY value) AS x FROM logs",
        "without an order",
    ),
    "the last of a named window without an order": (
        "SELECT last(address) OVER w AS x, first(address) OVER o AS y FROM logs "
        "WINDOW w AS (PARTITION BY value), o AS (ORDER BY value)",
        "without an order",
    ),
    "a text of any order": ("SELECT listagg(address, ',') AS x FROM logs", "WITHIN GROUP"),
    "a text of any order in a window": (
        "SELECT string_agg(DISTINCT address) OVER (PARTITION BY value) AS x FROM logs",
        "WITHIN GROUP",
    ),
    "the most frequent of several": ("SELECT mode(address) AS x FROM logs", "WITHIN GROUP"),
    "any value": ("SELECT any_value(address) AS x FROM logs", "any_value"),
    # What would take the session down
    "deep brackets": (f"SELECT {DEEP} AS n FROM logs", "nested deeper"),
    "deep arrays": ("SELECT " + "array(" * 60 + ")" * 60 + " AS n FROM logs", "nested deeper"),
    "deep CASE": (
        "SELECT " + "CASE WHEN true THEN " * 60 + "1" + " END" * 60 + " AS n FROM logs",
        "nested deeper",
    ),
    "deep subqueries": ("SELECT * FROM " + "(SELECT * FROM " * 60 + "logs" + ")" * 60, "deeper"),
    "a row of NOT": ("SELECT " + "NOT " * 5000 + "true AS n FROM logs", "nested deeper"),
    "a row of signs": ("SELECT " + "- " * 5000 + "1 AS n FROM logs", "nested deeper"),
    "deep types": (
        "SELECT CAST(1 AS " + "array<" * 500 + "int" + ">" * 500 + ") AS n FROM logs",
        "nested deeper",
    ),
    "a long sum": ("SELECT " + "1 + " * 2000 + "1 AS n FROM logs", "nested deeper"),
    "a long UNION": (" UNION ALL ".join(["SELECT 1 AS n"] * 500), "nested deeper"),
    "a large text": ("SELECT '" + "x" * 60_000 + "' AS n FROM logs", "characters"),
    "many words": ("SELECT " + "1, " * 11_000 + "1 FROM logs", "words"),
    "a billion laughs": (
        f"WITH c0 AS (SELECT 1 AS n), {LAUGHS} SELECT count(*) AS n FROM c29",
        "relations",
    ),
    "a large CUBE": (
        f"SELECT count(*) AS n FROM logs GROUP BY CUBE({', '.join(f'{n}' for n in range(30))})",
        "CUBE",
    ),
    "many groupings": (
        "SELECT count(*) AS n FROM logs GROUP BY "
        + ", ".join(["ROLLUP(block_number, address)"] * 9),
        "GROUPING SETS",
    ),
    "a recursion": (
        "WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c) SELECT * FROM c",
        "RECURSIVE",
    ),
    "a hint that moves rows": ("SELECT /*+ REPARTITION(100000) */ * FROM logs", "hint repartition"),
    "DISTRIBUTE BY": ("SELECT * FROM logs DISTRIBUTE BY address", "DISTRIBUTE BY"),
    # No SQL
    "nothing": ("  -- nothing\n", "is empty"),
    "half a statement": ("SELECT (1 AS n FROM logs", "syntax error"),
    "an open text": ("SELECT 'x FROM logs", "never closed"),
    "an open comment": ("SELECT 1 /* FROM logs", "never ends"),
    "a NUL": ("SELECT 1\0 FROM logs", "control character"),
}
