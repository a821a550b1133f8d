"""Events as people write them."""

from __future__ import annotations

import random

import pytest

from emr_jobs.abi.choice import chosen_events, column_names, column_type
from emr_jobs.abi.events import STANDARDS, Event, events_of_json, parse_event
from tests.abi_values import random_event
from tests.keccak import keccak

SWAP = (
    "event Swap(address indexed sender, uint256 amount0In, uint256 amount1In, uint256 amount0Out,"
    " uint256 amount1Out, address indexed to);"
)


def test_the_standards_have_their_well_known_topics() -> None:
    topics = {f"{name}.{each.name}": each.topic0 for name, of in STANDARDS.items() for each in of}
    transfer = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
    assert topics["erc20.Transfer"] == topics["erc721.Transfer"] == transfer
    for name, start in {
        "erc20.Approval": "0x8c5be1e5",
        "erc721.ApprovalForAll": "0x17307eab",
        "erc1155.ApprovalForAll": "0x17307eab",
        "erc1155.TransferSingle": "0xc3d58168",
        "erc1155.TransferBatch": "0x4a39dc06",
        "erc1155.URI": "0x6bb7ff70",
    }.items():
        assert topics[name].startswith(start), name


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        (SWAP, "Swap(address,uint256,uint256,uint256,uint256,address)"),
        ("event Nothing()", "Nothing()"),
        ("Plain(uint a, int b, byte c, function d)", "Plain(uint256,int256,bytes1,function)"),
        ("A(address payable indexed x)", "A(address)"),
        ("A(uint8[3][] x, bytes32[] indexed y)", "A(uint8[3][],bytes32[])"),
        ("A(tuple(uint256 a, (bytes b)[] c)[2] x)", "A((uint256,(bytes)[])[2])"),
        ("  event   A ( uint256,string )  ", "A(uint256,string)"),
    ],
)
def test_what_solidity_has_is_read(text: str, signature: str) -> None:
    event = parse_event(text)
    assert event.signature == signature
    assert event.topic0 == f"0x{keccak(signature.encode()).hex()}"


def test_indexed_arguments_are_known() -> None:
    event = parse_event(SWAP)
    assert [each.name for each in event.indexed] == ["sender", "to"]
    assert event.in_data[0].name == "amount0In"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("event A(uint257 x)", "`uint257` is no type of the ABI"),
        ("event A(uint7 x)", "`uint7` is no type of the ABI"),
        ("event A(bytes33 x)", "`bytes33` is no type of the ABI"),
        ("event A(IERC20 token)", "`address` for a contract"),
        ("event A(fixed128x18 x)", "`fixed128x18` is no type of the ABI"),
        ("event A(uint256 x", "`,` is missing before the end"),
        ("event A uint256 x)", "`(` is missing before `uint256`"),
        ("event A(uint256 x) anonymous", "anonymous events have no signature"),
        ("event A(uint256 x) public", "`public` comes after the end"),
        ("event A(uint256 x; bool y)", "`;` does not belong there"),
        ("event (uint256 x)", "the name of the event is missing"),
        ("event A(,)", "a type is missing before `,`"),
        ("event A(uint256 x,)", "a type is missing before `)`"),
        ("event A(uint256[0] x)", "an array has a length from 1"),
        ("event A(uint256[99999] x)", "an array has a length from 1"),
        ("event A(tuple() x)", "a tuple has at least one field"),
        ("event A((uint256 indexed a) x)", "only whole arguments are indexed"),
        (f"event A({'(' * 50}uint256{')' * 50} x)", "nested in one another"),
        (f"event A(uint256{'[]' * 50} x)", "nested in one another"),
        ("event A(" + ", ".join(["bool indexed"] * 4) + ")", "at most 3 arguments are indexed"),
        ("event A(" + "bool, " * 2000 + "bool)", "at most 4000 characters"),
    ],
)
def test_what_is_no_event_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"in `|characters") as told:
        parse_event(text)
    assert reason in str(told.value)


def test_a_json_abi_gives_its_events_and_nothing_else() -> None:
    entries = [
        {"type": "function", "name": "swap", "inputs": []},
        {
            "type": "event",
            "name": "Filled",
            "anonymous": False,
            "inputs": [
                {"name": "id", "type": "bytes32", "indexed": True},
                {
                    "name": "parts",
                    "type": "tuple[2][]",
                    "indexed": False,
                    "components": [
                        {"name": "token", "type": "address"},
                        {"name": "amounts", "type": "uint256[]"},
                    ],
                },
            ],
        },
    ]
    [event] = events_of_json(entries)
    assert event == parse_event(
        "Filled(bytes32 indexed id, tuple(address token, uint256[] amounts)[2][] parts)"
    )


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "event", "name": "A", "inputs": [{"name": "x"}]},
        {"type": "event", "name": "A", "inputs": [{"name": "x", "type": "tuple"}]},
        {"type": "event", "name": "A", "inputs": ["x"]},
        {"type": "event", "name": "A", "inputs": None},
        {"type": "event", "name": "A", "inputs": [{"type": "uint256[x]"}]},
        {"type": "event", "name": "", "inputs": []},
        {"type": "event", "name": "A", "anonymous": True, "inputs": []},
    ],
)
def test_a_broken_entry_is_refused_by_name(entry: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="in the ABI's event"):
        events_of_json([entry])


def test_events_are_chosen_by_standard_by_name_and_in_full() -> None:
    abi = [{"type": "event", "name": "Sent", "inputs": [{"name": "n", "type": "uint8"}]}]
    assert len(chosen_events(["erc20"], [])) == 2
    assert [each.signature for each in chosen_events([], abi)] == ["Sent(uint8)"]
    found = chosen_events(["erc721.Transfer", "Sent", "A(bool)"], abi)
    assert [each.name for each in found] == ["Transfer", "Sent", "A"]
    with pytest.raises(ValueError, match=r"there is no event `erc20.Mint`; write one of erc20, "):
        chosen_events(["erc20.Mint"], [])
    with pytest.raises(ValueError, match="no event is named"):
        chosen_events([], [])


def test_what_a_log_cannot_tell_apart_is_refused() -> None:
    with pytest.raises(ValueError, match="is there twice with 1 indexed"):
        chosen_events(["A(address indexed x, address y)", "A(address x, address indexed y)"], [])
    with pytest.raises(ValueError, match="have the same name"):
        chosen_events(["A(address x, address x)"], [])


def test_the_same_event_of_two_standards_names_both() -> None:
    found = chosen_events(["erc721", "erc1155", "erc20"], [])
    assert [each.standard for each in found if each.name == "ApprovalForAll"] == ["erc721|erc1155"]
    assert [each.standard for each in found if each.name == "Transfer"] == ["erc721", "erc20"]


def test_arguments_become_columns() -> None:
    event = parse_event("A(uint256 amount0In, address _from, bool, bytes32 tokenID, int8 URI)")
    assert column_names(event, "", []) == ("amount0_in", "from", "arg2", "token_id", "uri")
    assert column_names(event, "arg_", [])[1] == "arg_from"
    with pytest.raises(ValueError, match=r"two columns would be called `from`.*set `prefix`"):
        column_names(event, "", ["from"])
    with pytest.raises(ValueError, match="two columns would be called `a_b`"):
        column_names(parse_event("A(bool aB, bool a_b)"), "", [])


def test_columns_have_the_type_that_holds_every_value() -> None:
    text = "A(uint56 a, uint64 b, int64 c, int72 d, bool e, bytes f, bytes4 g, string h, bool[] i)"
    types = [column_type(each) for each in parse_event(text).arguments]
    big = "numeric(78,0)"
    assert types == ["bigint", big, "bigint", big, "boolean", "text", "text", "text", "jsonb"]
    assert column_type(parse_event("A(bool[] indexed i)").arguments[0]) == "text"


def test_signatures_of_any_event_are_read_back() -> None:
    chance = random.Random(11)  # noqa: S311
    for _ in range(200):
        event = random_event(chance, "Any")
        names = ", ".join(
            f"{each.type.text}{' indexed' if each.indexed else ''} {each.name}"
            for each in event.arguments
        )
        found = parse_event(f"event Any({names})")
        assert isinstance(found, Event)
        assert found.signature == event.signature
        assert [each.indexed for each in found.arguments] == [
            each.indexed for each in event.arguments
        ]


def test_a_function_is_called_so_in_the_signature_and_decoded_as_its_24_bytes() -> None:
    """Its topic is of the name that Solidity gives it, and not of what it is encoded as."""
    event = parse_event("event Called(function callback, function[] others)")
    assert event.signature == "Called(function,function[])"
    [callback, _] = event.arguments
    assert (callback.type.kind, callback.type.size) == ("fixed_bytes", 24)
    assert parse_event("event Called(uint a, byte b)").signature == "Called(uint256,bytes1)"
