"""What Spark may cost, told when templates are made: the ceiling of each environment, by the hour.

Prices are estimates from memory of list prices for arm64 in eu-central-1; no bill was seen. Check
yours. Memory and storage are paid for as long as a worker lives, and nothing while none does.
"""

from __future__ import annotations

from infra.environments import EXECUTOR_VCPUS, Emr

DOLLARS_PER_VCPU_HOUR = 0.050
DOLLARS_PER_GB_HOUR = 0.0055
DOLLARS_PER_DISK_GB_HOUR = 0.00013
FREE_DISK_GB = 20
"""Of each worker."""


def ceiling(emr: Emr) -> float:
    """Dollars an hour with every vCPU and gigabyte in use that the environment allows."""
    workers = emr.vcpus / EXECUTOR_VCPUS
    disk = max(emr.disk_gb - workers * FREE_DISK_GB, 0)
    return (
        emr.vcpus * DOLLARS_PER_VCPU_HOUR
        + emr.memory_gb * DOLLARS_PER_GB_HOUR
        + disk * DOLLARS_PER_DISK_GB_HOUR
    )


def one_run(vcpus: int, memory_gb: int) -> float:
    """Dollars an hour of a run with so much."""
    return vcpus * DOLLARS_PER_VCPU_HOUR + memory_gb * DOLLARS_PER_GB_HOUR
