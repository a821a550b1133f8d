"""Keccak-256 as Ethereum has it: SHA-3 before its padding was changed.

For the topics of event signatures, a few each run; block hashes are for the chain's own library.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_RATE = 136
_ROUNDS = 24


def keccak256(data: bytes) -> bytes:
    state = [0] * 25
    padded = bytearray(data)
    padded += bytes(_RATE - len(data) % _RATE)
    padded[len(data)] ^= 0x01
    padded[-1] ^= 0x80
    for start in range(0, len(padded), _RATE):
        for lane in range(_RATE // 8):
            at = start + 8 * lane
            state[lane] ^= int.from_bytes(padded[at : at + 8], "little")
        _permute(state)
    return b"".join(lane.to_bytes(8, "little") for lane in state[:4])


def _rotated(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK if by else value


def _round_constants() -> list[int]:
    """From the shift register of the specification."""
    constants, register = [], 1
    for _ in range(_ROUNDS):
        constant = 0
        for bit in range(7):
            if register & 1:
                constant |= 1 << ((1 << bit) - 1)
            register = (register << 1) ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return constants


def _steps() -> list[tuple[int, int]]:
    """Where each lane goes, and how far it is rotated on the way, from lane 1 on."""
    steps, x, y = [], 1, 0
    for turn in range(24):
        x, y = y, (2 * x + 3 * y) % 5
        steps.append((x + 5 * y, (turn + 1) * (turn + 2) // 2 % 64))
    return steps


_CONSTANTS, _STEPS = _round_constants(), _steps()


def _permute(state: list[int]) -> None:
    for constant in _CONSTANTS:
        columns = [
            state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20]
            for x in range(5)
        ]
        for x in range(5):
            mixed = columns[(x + 4) % 5] ^ _rotated(columns[(x + 1) % 5], 1)
            for y in range(0, 25, 5):
                state[x + y] ^= mixed
        moving = state[1]
        for place, by in _STEPS:
            state[place], moving = _rotated(moving, by), state[place]
        for y in range(0, 25, 5):
            row = state[y : y + 5]
            for x in range(5):
                state[x + y] = row[x] ^ (~row[(x + 1) % 5] & _MASK & row[(x + 2) % 5])
        state[0] ^= constant
