"""What makes logs in bulk: a token of 88 bytes that needs no compiler."""

from __future__ import annotations

TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
"""The topic of ERC-20's Transfer(address indexed from, address indexed to, uint256 value)."""

# A call with two words, COUNT and SEED, leaves COUNT logs, for i = COUNT to 1:
# Transfer(caller, address(SEED + i), SEED + i)
_RUNTIME = bytes.fromhex(
    "600035"  # i = COUNT
    "5b8015605657"  # loop: if i == 0, stop
    "8060203501"  # value = i + SEED
    "80600052"  # memory[0] = value
    "73ffffffffffffffffffffffffffffffffffffffff16"  # to = the low 20 bytes
    "33"  # from = the caller
    "7f" + TRANSFER[2:] + "60206000a3"  # LOG3(memory[0:32], Transfer, from, to)
    "6001900360" + "0356"  # i = i - 1, again
    "5b00"  # stop
)
_OFFSET = 11
TOKEN_CODE = (
    "0x" + (bytes.fromhex(f"60{len(_RUNTIME):02x}8060{_OFFSET:02x}6000396000f3") + _RUNTIME).hex()
)
"""The code that makes the contract."""


def transfers_call(count: int, seed: int) -> str:
    """Call data for that many transfers."""
    return f"0x{count:064x}{seed:064x}"
