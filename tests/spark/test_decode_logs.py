"""Logs become the events that they are, every number exact."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from emr_jobs.abi.events import Event, parse_event
from emr_jobs.files import Files
from emr_jobs.operators.decode_logs import decoded_logs
from emr_jobs.operators.decode_logs_config import DecodeLogsConfig
from emr_jobs.relation import relation
from tests.abi_values import random_event, random_log
from tests.spark.runs import Place
from trace_core.kernel.scopes import Scope
from trace_core.spark.wire import SparkResult

DECODE = "emr_jobs.operators.decode_logs:run"
LOGS = {
    "block_number": "bigint",
    "block_hash": "text",
    "transaction_hash": "text",
    "transaction_index": "integer",
    "log_index": "integer",
    "address": "text",
    "topic0": "text",
    "topic1": "text",
    "topic2": "text",
    "topic3": "text",
    "data": "text",
}
TRANSFER = parse_event("Transfer(address indexed from, address indexed to, uint256 value)")
ALICE, BOB, TOKEN = (f"0x{each * 40}" for each in "abc")
MAX = 2**256 - 1
Log = Mapping[str, Any]


def word(value: int) -> str:
    return f"{value % 2**256:064x}"


def log(*topics: str, data: str = "0x", **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "block_number": 1,
        "block_hash": "0xb1",
        "transaction_hash": "0xc1",
        "transaction_index": 0,
        "address": TOKEN,
        "data": data,
    }
    names = {f"topic{at}": topics[at] if at < len(topics) else None for at in range(4)}
    return {**given, **names, **changes}


def transfer(value: int, **changes: Any) -> dict[str, Any]:
    topics = (TRANSFER.topic0, f"0x{'0' * 24}{'a' * 40}", f"0x{'0' * 24}{'b' * 40}")
    return log(*topics, **{"data": f"0x{word(value)}", **changes})


def decode(place: Place, logs: Sequence[Log], **config: Any) -> SparkResult:
    rows = [{**each, "log_index": at} for at, each in enumerate(logs)]
    return place.run(
        DECODE,
        inputs=(place.input("logs", LOGS, rows),),
        config=config,
        scope=Scope.of_range(0, 9),
        trigger="logs",
    )


def rows(place: Place, logs: Sequence[Log], **config: Any) -> list[dict[str, Any]]:
    result = decode(place, logs, **config)
    assert result.failure is None, result.failure
    [written] = result.written
    return sorted(place.rows_of(written), key=lambda row: int(row["log_index"]))


def test_a_transfer_has_a_typed_column_for_each_argument(place: Place) -> None:
    result = decode(place, [transfer(MAX)], events=["erc20.Transfer"], layout="columns")
    [written] = result.written
    assert {each.name: each.type for each in written.columns} == {
        **{name: kind for name, kind in LOGS.items() if name != "data" and "topic" not in name},
        "from": "text",
        "to": "text",
        "value": "numeric(78,0)",
        "undecodable": "text",
    }
    assert (written.name, written.cursor_column) == ("events", "block_number")
    [row] = place.rows_of(written)
    assert (row["from"], row["to"], row["value"]) == (ALICE, BOB, str(MAX))
    assert (row["block_number"], row["address"], row["undecodable"]) == (1, TOKEN, None)


def test_numbers_are_exact_at_every_border(place: Place) -> None:
    chance = random.Random(256)  # noqa: S311
    borders = [2**bits + near for bits in range(0, 256, 5) for near in (-1, 0, 1)]
    borders += [10**digits + near for digits in range(0, 78, 3) for near in (-1, 0)]
    values = [*borders, *(chance.getrandbits(chance.randint(1, 256)) for _ in range(200)), MAX]
    wanted = [each % 2**256 for each in values]
    found = rows(place, [transfer(each) for each in wanted], events=["erc20"], layout="rows")
    assert [json.loads(row["args"])["value"] for row in found] == [str(each) for each in wanted]


def test_signed_numbers_are_exact_at_every_border(place: Place) -> None:
    event = "event Moved(int256 big, int64 small, int72 odd, int8 least)"
    tops = [(2**255, 2**63, 2**71, 2**7)]
    values = [tuple(-top for top in tops[0]), tuple(top - 1 for top in tops[0])]
    values += [(0, 0, 0, 0), (-1, -1, -1, -1), (-(10**76), -(10**18), -(10**21), -100)]
    logs = [
        log(parse_event(event).topic0, data="0x" + "".join(word(each) for each in one))
        for one in values
    ]
    found = rows(place, logs, events=[event], layout="columns")
    assert [row["undecodable"] for row in found] == [None] * len(values)
    assert [(row["big"], row["small"], row["odd"], row["least"]) for row in found] == [
        (str(big), small, str(odd), least) for big, small, odd, least in values
    ]


def test_tokens_and_nfts_are_told_apart_by_their_topics(place: Place) -> None:
    topics = [f"0x{word(each)}" for each in (1, 2, 77)]
    nft = log(TRANSFER.topic0, *topics)
    logs = [transfer(5), nft, log(f"0x{'1' * 64}")]
    found = rows(place, logs, events=["erc20", "erc721", "erc1155"])
    assert [(row["event"], row["standard"], row["log_index"]) for row in found] == [
        ("Transfer", "erc20", 0),
        ("Transfer", "erc721", 1),
    ]
    assert found[0]["args"] == f'{{"from":"{ALICE}","to":"{BOB}","value":"5"}}'
    assert json.loads(found[1]["args"])["tokenId"] == "77"
    assert found[1]["signature"] == "Transfer(address,address,uint256)"
    assert [row["log_index"] for row in rows(place, logs, events=["erc20.Transfer"])] == [0]


def test_batches_and_texts_are_decoded_beside_the_rest(place: Place) -> None:
    addresses = [f"0x{word(each)}" for each in (1, 2, 3)]
    batch = "".join(word(each) for each in (64, 160, 2, 7, MAX, 2, 1, 2))
    uri = "".join((word(32), word(5), b"ipfs:".hex().ljust(64, "0")))
    single = f"0x{word(9)}{word(MAX)}"
    topics = {each.name: each.topic0 for each in DecodeLogsConfig(("erc1155",)).chosen()}
    logs = [
        log(topics["TransferBatch"], *addresses, data=f"0x{batch}"),
        log(topics["URI"], f"0x{word(7)}", data=f"0x{uri}"),
        log(topics["TransferSingle"], *addresses, data=single),
        transfer(3),
        log(topics["ApprovalForAll"], *addresses[:2], data=f"0x{word(1)}"),
    ]
    found = rows(place, logs, events=["erc1155", "erc20"])
    assert [row["undecodable"] for row in found] == [None] * 5
    arguments = [json.loads(row["args"]) for row in found]
    assert arguments[0]["ids"] == ["7", str(MAX)]
    assert arguments[0]["values"] == ["1", "2"]
    assert arguments[0]["operator"] == f"0x{1:040x}"
    assert arguments[1] == {"id": "7", "value": "ipfs:"}
    assert (arguments[2]["id"], arguments[2]["value"]) == ("9", str(MAX))
    assert arguments[3]["value"] == "3"
    assert arguments[4]["approved"] is True


def test_types_without_a_size_have_columns_too(place: Place) -> None:
    event = "event Posted(string indexed topic, string text, (uint8 a, bool b)[] parts, bool ok)"
    digest = f"0x{'9' * 64}"
    data = "".join(
        (
            *(word(each) for each in (96, 160, 1, 2)),
            "é".encode().hex().ljust(64, "0"),
            *(word(each) for each in (1, 255, 0)),
        )
    )
    logs = [log(parse_event(event).topic0, digest, data=f"0x{data}")]
    [row] = rows(place, logs, events=[event], layout="columns", prefix="arg_")
    assert (row["arg_topic"], row["arg_text"], row["arg_ok"]) == (digest, "é", True)
    assert json.loads(row["arg_parts"]) == [{"a": "255", "b": False}]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"data": "0x"}, "0 bytes of data, and 32 are needed"),
        ({"data": None}, "0 bytes of data, and 32 are needed"),
        ({"data": f"0x{'0' * 62}"}, "31 bytes of data, and 32 are needed"),
        ({"data": f"0x{'0' * 63}"}, "the data is no hex text"),
        ({"data": f"0x{'0' * 63}g"}, "the data is no hex text"),
        ({"data": f"0x{'0' * 62}-1"}, "the data is no hex text"),
        ({"data": "nothing"}, "the data is no hex text"),
        ({"topic1": f"0x{'1' * 64}"}, "from is no address"),
        ({"topic1": "0x01"}, "topic1 is no word of 32 bytes"),
        ({"topic2": "z" * 66}, "topic2 is no word of 32 bytes"),
    ],
)
def test_broken_logs_are_marked_in_both_layouts(
    place: Place, changes: dict[str, Any], reason: str
) -> None:
    config = DecodeLogsConfig(("erc20.Transfer",), layout="columns")
    both = config, DecodeLogsConfig(("erc20",))
    given = [{**transfer(1), **changes, "log_index": 0}, {**transfer(2), "log_index": 1}]
    logs = relation(place.spark, Files(place.spark), place.input("logs", LOGS, given))
    for each in both:
        bad, good = sorted(decoded_logs(logs, each).collect(), key=lambda row: row["log_index"])
        assert (bad["undecodable"], good["undecodable"]) == (reason, None)
        if each is config:
            assert (bad["from"], bad["value"], good["value"]) == (None, None, "2")
        else:
            assert (bad["args"], json.loads(good["args"])["value"]) == (None, "2")


def test_broken_logs_can_be_left_out_and_are_counted(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    found = rows(
        place,
        [transfer(1), transfer(2, data="0x"), transfer(3)],
        events=["erc20.Transfer"],
        layout="columns",
        undecodable="drop",
    )
    assert [row["value"] for row in found] == ["1", "3"]
    assert "undecodable" not in found[0]
    assert "3 logs of these events, 1 of them undecodable" in capsys.readouterr().out


def test_upper_case_and_bytes_behind_the_end_change_nothing(place: Place) -> None:
    logs = [transfer(0xABC, data=f"0x{word(0xABC).upper()}ff")]
    [row] = rows(place, logs, events=["erc20"])
    assert json.loads(row["args"])["value"] == str(0xABC)


def test_topics_and_addresses_reach_the_scan(place: Place) -> None:
    logs = [{**transfer(1), "log_index": 0}, {**transfer(2, address=ALICE), "log_index": 1}]
    frame = relation(place.spark, Files(place.spark), place.input("logs", LOGS, logs))
    config = DecodeLogsConfig(
        ("erc20.Transfer",), layout="columns", addresses=(f"0x{'C' * 40}",), keep=("block_number",)
    )
    found = decoded_logs(frame, config)
    plan = found._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
    [pushed] = [line for line in plan.splitlines() if "PushedFilters" in line]
    for each in (f"EqualTo(topic0,{TRANSFER.topic0})", f"EqualTo(address,{TOKEN})", "topic3"):
        assert each in pushed
    assert "block_hash" not in plan
    assert [row["value"] for row in found.collect()] == ["1"]


def test_any_events_are_decoded_as_they_were_encoded(place: Place) -> None:
    """Random events with random values, static and dynamic ones in one job."""
    chance = random.Random(2026)  # noqa: S311
    events = [random_event(chance, f"Event{at}") for at in range(12)]
    logs, wanted = [], []
    for _ in range(200):
        event = chance.choice(events)
        made, told = random_log(chance, event)
        logs.append(log(**made))
        wanted.append((event.name, told))
    found = rows(place, logs, abi=[json_of(each) for each in events])
    assert [row["undecodable"] for row in found] == [None] * len(logs)
    assert [(row["event"], json.loads(row["args"])) for row in found] == wanted
    canonical = [json.dumps(told, **COMPACT) for _, told in wanted]  # type: ignore[arg-type]
    assert [row["args"] for row in found] == canonical


COMPACT = {"ensure_ascii": False, "sort_keys": True, "separators": (",", ":")}


def json_of(event: Event) -> dict[str, Any]:
    """The event as a compiler tells of it."""

    def entry(name: str, kind: Any) -> dict[str, Any]:
        suffix = ""
        while kind.kind == "array":
            suffix = f"[{'' if kind.length is None else kind.length}]{suffix}"
            kind = kind.of
        if kind.kind == "tuple":
            parts = [entry(each, of) for each, of in kind.fields]
            return {"name": name, "type": f"tuple{suffix}", "components": parts}
        return {"name": name, "type": f"{kind.text}{suffix}"}

    inputs = [{**entry(each.name, each.type), "indexed": each.indexed} for each in event.arguments]
    return {"type": "event", "name": event.name, "inputs": inputs}


def test_logs_without_the_named_columns_are_refused(place: Place) -> None:
    result = place.run(
        DECODE,
        inputs=(place.input("logs", {"topic0": "text"}),),
        config={"events": ["erc20"]},
        trigger="logs",
    )
    assert result.failure is not None
    assert "the logs have no column address, block_hash" in result.failure.message
