"""The names of queues: one for each org and runtime, and none that SQS would refuse."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from trace_core.dag.model import Runtime
from trace_core.kernel.ids import OrgId
from trace_core.ports.queue import QUEUE_NAME, wake_queue

ORG = OrgId(UUID("01a1edd7-3ae4-7035-ae50-e1dba1550001"))
ROOM_FOR_PREFIX_AND_SUFFIX = 80 - 47


@given(org=st.uuids(), runtime=st.sampled_from(Runtime))
def test_every_name_is_one_that_sqs_takes_with_room_to_spare(org: UUID, runtime: Runtime) -> None:
    name = wake_queue(runtime, OrgId(org))
    assert QUEUE_NAME.fullmatch("e" * ROOM_FOR_PREFIX_AND_SUFFIX + name)


def test_a_name_is_the_runtimes_and_the_orgs() -> None:
    assert wake_queue(Runtime.WORKER, ORG) == "worker-01a1edd73ae47035ae50e1dba1550001"


@given(orgs=st.lists(st.uuids(), min_size=2, max_size=2, unique=True))
def test_no_two_orgs_or_runtimes_share_a_queue(orgs: list[UUID]) -> None:
    names = {wake_queue(runtime, OrgId(org)) for org in orgs for runtime in Runtime}
    assert len(names) == 2 * len(Runtime)
