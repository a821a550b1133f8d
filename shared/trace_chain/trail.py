"""How far a follower has come: the hashes of what it wrote last, and what to write again.

It is the source's state, and moves in the transaction of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trace_chain.completeness import Header
from trace_chain.errors import WrongChain

Range = tuple[int, int]
REPAIRS_MAX = 1000
"""Ranges that wait; what comes above is left to a later slice."""


@dataclass(frozen=True)
class Trail:
    chain_id: int
    next: int
    """The number of the first block that is not written."""
    hashes: tuple[str, ...] = ()
    """Of the blocks before `next`, in order; the oldest are forgotten."""
    repairs: tuple[Range, ...] = ()
    """Ranges to be written again."""
    heads: Mapping[str, Any] | None = None
    """latest, safe and finalized, as of the last commit."""
    repaired_last: bool = False
    """Repairs and new blocks take turns."""

    @staticmethod
    def read(value: Any, chain_id: int, start_block: int) -> Trail:
        if value is None:
            return Trail(chain_id, start_block)
        if value["chain_id"] != chain_id:
            raise WrongChain(
                f"what is written is of chain {value['chain_id']}, and the job says {chain_id}"
            )
        return Trail(
            chain_id,
            int(value["next"]),
            tuple(value["hashes"]),
            tuple((int(start), int(end)) for start, end in value["repairs"]),
            value["heads"],
            bool(value["repaired_last"]),
        )

    def value(self) -> dict[str, Any]:
        return {
            "chain_id": self.chain_id,
            "next": self.next,
            "hashes": list(self.hashes),
            "repairs": [list(each) for each in self.repairs],
            "heads": self.heads,
            "repaired_last": self.repaired_last,
        }

    @property
    def first(self) -> int:
        """The oldest block whose hash is known; `next` if there is none."""
        return self.next - len(self.hashes)

    @property
    def last(self) -> int | None:
        return self.next - 1 if self.hashes else None

    def hash_of(self, number: int) -> str | None:
        at = number - self.first
        return self.hashes[at] if 0 <= at < len(self.hashes) else None

    def common(self, found: Mapping[int, str | None]) -> int | None:
        """The highest of these blocks that is the one we wrote."""
        same = [number for number, hash_ in found.items() if hash_ == self.hash_of(number)]
        return max(same, default=None)

    def differs(self, found: Mapping[int, str | None], after: int | None) -> bool:
        """Whether others stand for blocks that we wrote; one that is not there says nothing."""
        return any(
            hash_ is not None and hash_ != self.hash_of(number)
            for number, hash_ in found.items()
            if after is None or number > after
        )

    def written(self, start: int, hashes: Sequence[str], keep: int) -> Trail:
        """After the blocks from `start` on, in the place of what was there."""
        kept = (*self.hashes[: max(0, start - self.first)], *hashes)[-keep:]
        # What was to be repaired from there on is written anew.
        left = ((first, min(last, start - 1)) for first, last in self.repairs)
        return replace(
            self,
            next=start + len(hashes),
            hashes=kept,
            repairs=tuple(each for each in left if each[0] <= each[1]),
            repaired_last=False,
        )

    def lengthened(self, headers: Sequence[Header | None]) -> Trail:
        """With older blocks in front, as far as they are the ancestors of the oldest one that is
        known; `headers` end with that one."""
        older: list[str] = []
        *before, child = headers
        if child is None or child.hash != self.hash_of(self.first):
            return self
        for header in reversed(before):
            if header is None or header.hash != child.parent_hash:
                break
            older.append(header.hash)
            child = header
        return replace(self, hashes=(*reversed(older), *self.hashes))

    def asked(self, ranges: Sequence[Range]) -> Trail:
        """With these to be written again as well, each once."""
        new = [each for each in dict.fromkeys(ranges) if each not in self.repairs]
        return replace(self, repairs=(*self.repairs, *new))

    def repaired(self, place: int, end: int) -> Trail:
        """One of the repairs is done up to `end`."""
        _, last = self.repairs[place]
        rest = ((end + 1, last),) if end < last else ()
        repairs = (*self.repairs[:place], *rest, *self.repairs[place + 1 :])
        return replace(self, repairs=repairs, repaired_last=True)
