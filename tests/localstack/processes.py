"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil


def wait_until(true: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"after {seconds} s: {what}"
        time.sleep(0.05)


def wait_until_gone(process: int) -> None:
    wait_until(lambda: gone(process), f"process {process} still runs")


def gone(process: int) -> bool:
    try:
        return bool(psutil.Process(process).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def wait_for_text(path: Path) -> str:
    wait_until(lambda: path.exists() and path.read_text() != "", f"{path.name} was not written")
    return path.read_text()
