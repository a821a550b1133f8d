"""Uploads of labels: every line is judged, and what is wrong is named by its line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.operators.payloads import make_payload
from trace_chain.address_labels import CSV_MAX, AddressLabels, checksummed, labels_of
from trace_chain.backfill_configs import AddressLabelsConfig
from trace_core.kernel.errors import Invalid
from trace_core.operators.api import Result, Rows, task_context

NOW = datetime(2026, 11, 18, tzinfo=UTC)
A, B = "0x" + "aa" * 20, "0x" + "bb" * 20
# The examples of EIP-55.
CHECKSUMMED = (
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
)


def upload(text: str) -> list[tuple[str | None, ...]]:
    return labels_of({"csv": text})


def test_addresses_are_kept_in_lower_case_and_columns_in_their_order() -> None:
    upper = f"0x{'BB' * 20}"
    rows = upload(f"label,address,note\nExchange,{CHECKSUMMED[0]},hot\n\nBridge,{upper},\n")
    assert rows == [
        (CHECKSUMMED[0].lower(), "Exchange", None, "hot"),
        (B, "Bridge", None, None),
    ]


@pytest.mark.parametrize("address", CHECKSUMMED)
def test_the_checksum_is_that_of_eip_55(address: str) -> None:
    assert checksummed(address.lower()) == address


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"address,label\n{A},x\n{A.upper()[:2].lower()}{'AA' * 20},y\n", "line 3: 0xaaaa"),
        (f"address,label\n{A},x\n0x12,y\n", "line 3: '0x12' is no address"),
        (f"address,label\n{CHECKSUMMED[0].replace('Aed', 'AED')},x\n", "wrong checksum"),
        (f"address,label\n{A},\n", "line 2: the label is empty"),
        (f"address,label\n{A},x,y\n", "line 2: 3 values for 2 columns"),
        (f"address,label\n{A},{'x' * 201}\n", "line 2: label has over 200"),
        (f"address,name\n{A},x\n", "line 1 names the columns"),
        (f"address,label,label\n{A},x,y\n", "line 1 names the columns"),
        (f'address,label\n{A},"x\n', "line 2: "),
        ("", "empty"),
        ("\ufeff", "empty"),
        ("\ufeff \r\n", "empty"),
        (f"address,label\n{A},half a \ud83d sign\n", "line 2: there is half a sign"),
        ("address,label\n" + "x" * CSV_MAX, "over"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(text: str, says: str) -> None:
    with pytest.raises(Invalid) as wrong:
        upload(text)
    assert says in wrong.value.message


def test_all_wrong_lines_are_named_up_to_a_limit() -> None:
    text = "address,label\n" + "nope,x\n" * 30
    with pytest.raises(Invalid) as wrong:
        upload(text)
    assert "line 2:" in wrong.value.message
    assert "line 21:" in wrong.value.message
    assert "and 10 more" in wrong.value.message
    assert len(wrong.value.message) < 4000


def run(strategy: str, *texts: str) -> Result:
    payload = make_payload("address_labels")
    payload["job"] |= {"activation": "source", "update_strategy": strategy}
    payload["requests"] = [
        {"number": number, "request": {"csv": text}} for number, text in enumerate(texts, 7)
    ]
    return AddressLabels().run(task_context(payload, AddressLabelsConfig(), now=NOW))


def scopes(result: Result) -> list[Any]:
    return [each.scope.partition_key for each in result.outputs]


def test_with_replace_the_last_upload_takes_the_place_of_all() -> None:
    result = run("replace", f"address,label\n{A},x\n", f"address,label\n{B},y\n")
    assert (scopes(result), list(result.requests_taken)) == (["labels"], [7, 8])
    (rows,) = result.outputs
    assert isinstance(rows, Rows)
    assert rows.table["address"].to_pylist() == [B]


def test_with_append_each_upload_adds_to_the_others() -> None:
    result = run("append", f"address,label\n{A},x\n", f"address,label\n{B},y\n")
    assert scopes(result) == ["upload-7", "upload-8"]


def test_a_bad_upload_is_taken_and_writes_nothing() -> None:
    result = run("replace", "nope")
    assert (list(result.outputs), list(result.requests_taken)) == ([], [7])
    with pytest.raises(Invalid):
        AddressLabels().check_request({"csv": "nope"})
