"""The DAG that the tests of plans edit, and the state it would be in after a first deploy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.unit.dag.future_operators import stand_in_catalog
from trace_core.dag.catalog import Catalog
from trace_core.dag.digest import content_digest
from trace_core.dag.fingerprint import job_fingerprints
from trace_core.dag.load import load_dag
from trace_core.dag.model import Dag
from trace_core.dag.places import Places
from trace_core.deploy.plan import make_plan
from trace_core.deploy.plan_facts import (
    ActiveJob,
    OutputFacts,
    PlanFacts,
    Reader,
    ReaderKind,
)
from trace_core.deploy.plan_model import Plan

HERE = Path(__file__).parent
FILE = "market.dag.yaml"
TEXT = (HERE / FILE).read_text(encoding="utf-8")
CATALOG = stand_in_catalog()


def read(text: str, catalog: Catalog = CATALOG) -> Dag:
    return load_dag(text, filename=FILE, catalog=catalog)


DAG = read(TEXT)


def edited(*edits: tuple[str, str], text: str = TEXT) -> str:
    for old, new in edits:
        assert text.count(old) == 1, f"{text.count(old)} times in the file: {old!r}"
        text = text.replace(old, new)
    return text


def newer_code(*operators: str) -> Catalog:
    return Catalog(
        *(
            replace(spec, code_version="2") if spec.name in operators else spec
            for spec in CATALOG.values()
        )
    )


def active_facts(dag: Dag = DAG, *, version: int = 3, code_versions: bool = True) -> PlanFacts:
    """As if `dag` were deployed and had never done anything."""
    return PlanFacts(
        state_token="state-7",
        version=version,
        digest=content_digest(dag),
        active={
            name: ActiveJob(
                fingerprint,
                CATALOG[operator].code_version
                if code_versions and (operator := dag.job(name).operator)
                else None,
            )
            for name, fingerprint in job_fingerprints(dag, CATALOG).items()
        },
    )


def busy_facts() -> PlanFacts:
    """With data behind every job that keeps some, and with readers elsewhere."""
    return replace(
        active_facts(),
        outputs={
            ("follow", 0): OutputFacts(52_000, 52_000, 41_600_000),
            ("follow", 1): OutputFacts(52_000, 3_120_000, 1_560_000_000),
            ("follow", 2): OutputFacts(52_000, 9_360_000, 4_100_000_000),
            ("backfill", 0): OutputFacts(100, 1_000_000, 800_000_000),
            ("backfill", 1): OutputFacts(100, 180_000_000, 79_000_000_000),
            ("chunks", 0): OutputFacts(100, 0, 0),
            ("ranges", 0): OutputFacts(5, 0, 0),
            ("transfers", 0): OutputFacts(1_240, 3_100_000, 820_000_000),
            ("volumes", 0): OutputFacts(1_240, 62_000, 2_480_000),
            ("senders", 0): OutputFacts(1_240, 410_000, 16_400_000),
            ("report", 0): OutputFacts(1_240, 1_240, None),
        },
        durations={
            "follow": (2.0,) * 20,
            "backfill": tuple(30.0 + each for each in range(20)),
            "transfers": (1.2,) * 20,
            "volumes": (0.4,) * 20,
            "senders": (0.3,) * 12,
            "ranges": (0.01,) * 5,
        },
        input_scopes={"history": 2},
        readers={
            "transfers": (
                Reader(ReaderKind.JOB, "daily_volume", "reports", frozenset({"amount", "label"})),
                Reader(ReaderKind.JOB, "export", "lake"),
                Reader(ReaderKind.ALERT_RULE, "big_moves", columns=frozenset({"amount"})),
            ),
            "volumes": (Reader(ReaderKind.ALERT_RULE, "volume_drop"),),
        },
        at_once=10,
    )


def plan_of(
    text: str,
    facts: PlanFacts | None = None,
    *,
    old: Dag | None = DAG,
    catalog: Catalog = CATALOG,
) -> Plan:
    return make_plan(
        old,
        read(text, catalog),
        catalog,
        facts or active_facts(),
        places=Places.of(text, FILE),
    )
