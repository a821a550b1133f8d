"""Damaged DAG files are refused with problems, never with a crash, and quickly.

The default keeps the folder fast; for the long run: TRACE_MUTATIONS=10000 pytest <this file>.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

from trace_core.dag.catalog import Catalog
from trace_core.dag.drawing import draw
from trace_core.dag.fingerprint import job_fingerprints
from trace_core.dag.load import load_dag
from trace_core.dag.problems import DagInvalid, render

COUNT = int(os.environ.get("TRACE_MUTATIONS", "600"))
HERE = Path(__file__).parent
Mutate = Callable[[random.Random, bytes], bytes]

WORDS = [
    b"null", b"yes", b"~", b"[]", b"{}", b"-1", b"0", b"1.5", b".inf", b".nan", b"1e999", b"0x1F",
    b"010", b"9" * 25, b"'" * 3, b'"\\0"', b"!!python/name:os.system", b"&a x", b"*a", b"<<: *a",
    b"? a", b"|", b">-", b"@x", b"`x`", b"%x", b"a: b: c", b"- - -", b"2024-01-01", b"1:30",
    b"\xf0\x9f\x92\xa5", b"\xe2\x80\xae", b"\xc2\x85", b"\xed\xa0\x80", b"\xff\xfe", b"\x00",
    b"[[[[[[[[", b"{{{{{{{{", b"]", b"}", b",", b"#", b"---", b"...", b"\t", b"\r", b"true",
]  # fmt: skip
KEYS = [
    b"name", b"jobs", b"inputs", b"from", b"output", b"outputs", b"operator", b"udf", b"source",
    b"config", b"where", b"publish", b"checks", b"schema", b"columns", b"mode", b"secrets", b"kind",
]  # fmt: skip


def flip_bytes(dice: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


def change_lines(dice: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(lines))
        match dice.randrange(4):
            case 0:
                lines[at : at + dice.randint(1, 3)] = []
            case 1:
                lines.insert(dice.randrange(len(lines) + 1), lines[at])
            case 2:
                other = dice.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case _:
                lines[at] = b" " * dice.randint(0, 12) + lines[at].strip()
        lines = lines or [b""]
    return b"\n".join(lines)


def rename_key(dice: random.Random, data: bytes) -> bytes:
    parts = data.split(b": ")
    at = dice.randrange(len(parts))
    head = parts[at].rstrip(b"abcdefghijklmnopqrstuvwxyz_0123456789")
    parts[at] = head + dice.choice([*KEYS, *WORDS])
    return b": ".join(parts)


def swap_value(dice: random.Random, data: bytes) -> bytes:
    parts = data.split(b": ")
    at = dice.randrange(len(parts))
    tail = parts[at].lstrip(b"abcdefghijklmnopqrstuvwxyz_0123456789.'\"=")
    parts[at] = dice.choice(WORDS) + tail
    return b": ".join(parts)


def insert_word(dice: random.Random, data: bytes) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + dice.choice(WORDS) * dice.choice([1, 1, 1, 50]) + data[at:]


def cut(dice: random.Random, data: bytes) -> bytes:
    start, end = sorted(dice.randrange(len(data) + 1) for _ in range(2))
    return data[:start] if dice.random() < 0.5 else data[:start] + data[end:]


def nest(dice: random.Random, data: bytes) -> bytes:
    depth = dice.choice([5, 31, 33, 500, 5000])
    opened, closed = dice.choice([(b"[", b"]"), (b"{a: ", b"}"), (b"- ", b""), (b"? ", b"")])
    at = data.find(b": ", dice.randrange(len(data) // 2)) + 2
    return data[:at] + opened * depth + closed * depth + b" #" + data[at:]


def bomb(dice: random.Random, data: bytes) -> bytes:
    levels = dice.randint(2, 30)
    lines = [b"a0: &a0 [x, x, x]"]
    for level in range(1, levels):
        aliases = b", ".join([b"*a%d" % (level - 1)] * dice.randint(2, 10))
        lines.append(b"a%d: &a%d [%s]" % (level, level, aliases))
    return b"\n".join(lines) + b"\n" + data


def big_number(dice: random.Random, data: bytes) -> bytes:
    digits = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    at = dice.choice(digits or [0])
    return data[:at] + b"7" * dice.choice([1, 18, 19, 20, 400, 5000]) + data[at:]


def odd_letters(dice: random.Random, data: bytes) -> bytes:
    letters = "".join(
        chr(dice.choice([dice.randrange(0xD800), dice.randrange(0xE000, 0x110000)]))
        for _ in range(dice.randint(1, 5))
    )
    at = dice.randrange(len(data) + 1)
    return data[:at] + letters.encode() + data[at:]


MUTATIONS: list[Mutate] = [
    flip_bytes, change_lines, rename_key, swap_value, insert_word, cut, nest, bomb, big_number,
    odd_letters,
]  # fmt: skip


def test_a_damaged_file_is_read_or_refused_and_never_crashes(catalog: Catalog) -> None:
    example = (HERE / "example.dag.yaml").read_bytes()
    small = (HERE / "bad" / "strategy_bulk.yaml").read_bytes().replace(b"Bulk", b"PerUpdate")
    slowest, accepted = 0.0, 0
    for seed in range(COUNT):
        dice = random.Random(seed)  # noqa: S311 - repeatable, not secret
        data = dice.choice([example, small])
        mutation = MUTATIONS[seed % len(MUTATIONS)]
        for _ in range(dice.choice([1, 1, 2, 3])):
            data = mutation(dice, data) if len(data) > 100 else data
            mutation = dice.choice(MUTATIONS)
        text: str | bytes = data if seed % 3 else data.decode("utf-8", "surrogateescape")
        before = time.perf_counter()
        try:
            dag = load_dag(text, filename=f"{seed}.yaml", catalog=catalog)
        except DagInvalid as error:
            taken = time.perf_counter() - before
            check_problems(error, data)
        else:
            taken = time.perf_counter() - before
            accepted += 1
            job_fingerprints(dag, catalog)
            draw(dag)
        slowest = max(slowest, taken)
        assert taken < 1, f"seed {seed} took {taken:.2f} s"
    print(f"{COUNT} mutations, {accepted} still valid, slowest {slowest * 1000:.0f} ms")
    assert accepted < COUNT * 0.6


def check_problems(error: DagInvalid, data: bytes) -> None:
    assert error.problems
    lines = len(data.decode("utf-8", "replace").splitlines()) + 1
    for problem in error.problems:
        assert 1 <= problem.line <= lines
        assert problem.column >= 1
        assert problem.reason
        assert problem.suggestion
        assert "\n" not in problem.headline()
    assert len({each.headline() for each in error.problems}) == len(error.problems)
    assert render(error.problems, data.decode("utf-8", "replace"))
