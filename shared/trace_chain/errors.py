"""What can be wrong with a chain or with who tells of it, as one tree.

ChainError               an operator that raises it fails its attempt; the name is the error's code
├── ProviderFault        another provider may do better; counts against the slot
│   ├── NodeAway             no answer: refused, reset, timed out, or 5xx
│   ├── RateLimited          429, or the same as a JSON-RPC error
│   ├── Lagging              it does not have what it told of, or what others have
│   ├── Malformed            the answer is not what JSON-RPC or the chain's format asks for
│   ├── AnswerTooLarge       more bytes than we take; ask for less at once
│   ├── RpcFailed            it answers with an error of its own
│   │   └── MethodMissing        it does not know the method
│   └── Untrue               the answer contradicts itself or the block's header
├── CryoFailed           Cryo gave up: the blocks are read without it
├── ForkMoved            the chain was reorganised between two calls: read again
├── WrongChain           not the chain that the job is about: never retried
└── ReorgTooDeep         no common ancestor within the hashes that we keep: a person must look
"""

from __future__ import annotations

from trace_core.operators.api import OperatorFailed


class ChainError(OperatorFailed):
    """Retried, unless it says otherwise."""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message, retryable=retryable)


class ProviderFault(ChainError):
    """The provider's fault, as far as we can tell."""

    upstream_fault = "failed"


class NodeAway(ProviderFault):
    upstream_fault = "unreachable"


class RateLimited(ProviderFault):
    upstream_fault = "rate_limited"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds, if the provider said."""


class Lagging(ProviderFault):
    upstream_fault = "lagging"


class Malformed(ProviderFault):
    upstream_fault = "malformed"


class AnswerTooLarge(ProviderFault):
    upstream_fault = "too_large"


class RpcFailed(ProviderFault):
    def __init__(self, message: str, *, rpc_code: int = 0) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code


class MethodMissing(RpcFailed):
    pass


class Untrue(ProviderFault):
    """A block that cannot be verified is never written."""

    upstream_fault = "untrue"

    def __init__(self, message: str, *, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number


class CryoFailed(ChainError):
    pass


class ForkMoved(ChainError):
    pass


class WrongChain(ChainError):
    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class ReorgTooDeep(ChainError):
    pass
