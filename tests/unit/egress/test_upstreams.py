"""Upstreams as configuration: what is wrong is named, and never shown."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from trace_core.egress.addresses import is_public
from trace_core.egress.model import read_upstreams, wanted
from trace_core.kernel.errors import Invalid

SECRET = "canary-77aa"


def test_they_are_json_or_a_file_with_it(tmp_path: Path) -> None:
    text = '{"main": {"url": "https://a.example/v2/{key}", "limits": {"concurrency": 4}}}'
    file = tmp_path / "upstreams.json"
    file.write_text(text)
    assert read_upstreams(text) == read_upstreams(str(file))
    assert read_upstreams(text)["main"].limits.concurrency == 4
    assert read_upstreams(None) == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "JSON object"),
        ("[]", "cannot be read"),
        ("/nowhere/at/all", "cannot be read"),
        (f'{{"main": {{"url": "ftp://{SECRET}/"}}}}', "http or https"),
        (f'{{"main": {{"url": "https://u:{SECRET}@a.example/"}}}}', "no user"),
        ('{"main": {"url": "https://{key}.a.example/"}}', "not in the host"),
        ('{"main": {"url": "http://a.example/{key}"}}', "over https only"),
        (f'{{"main": {{"url": "https://a.example/", "key": "{SECRET}"}}}}', "main: key"),
        ('{"main": {"url": "https://a/", "header": "Host", "value": "{key}"}}', "gateway itself"),
        ('{"main": {"url": "https://a/", "header": "X-Key", "value": "no"}}', "contain {key}"),
        ('{"main": {"url": "https://a/", "header": "X", "value": "{key}\\n"}}', "main: value"),
        ('{"main": {"url": "https://a/", "header": "X", "value": "ключ {key}"}}', "main: value"),
        (f'{{"main": {{"url": "https://a/{SECRET} {{key}}"}}}}', "main: url"),
        (f'{{"main": {{"url": "https://a/{SECRET}ä/{{key}}"}}}}', "main: url"),
        (f'{{"main": {{"url": "https://a:{SECRET}/{{key}}"}}}}', "http or https"),
        ('{"Main": {"url": "https://a/"}}', "must match"),
        ('{"main": {"url": "https://a/", "limits": {"concurrency": 0}}}', "limits.concurrency"),
    ],
)
def test_what_is_wrong_is_said_without_the_value(text: str, says: str) -> None:
    with pytest.raises(Invalid) as wrong:
        read_upstreams(text)
    assert says in wrong.value.message
    assert SECRET not in wrong.value.message


def test_a_slot_asks_by_the_names_of_its_variables() -> None:
    env = {"RPC_UPSTREAM": "a", "B_UPSTREAM": "b", "_UPSTREAM": "c", "UPSTREAM": "d"}
    assert [(each.url_variable, each.key_variable, each.upstream) for each in wanted(env)] == [
        ("B_URL", "B_KEY", "b"),
        ("RPC_URL", "RPC_KEY", "a"),
    ]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.1.2.3",
        "224.0.0.1", "192.0.0.192", "192.88.99.1", "::1", "fe80::1", "fc00::1", "fec0::1",
        "64:ff9b::a00:1", "2002:a00:1::", "::ffff:10.0.0.1", "::10.0.0.1", "2001::1",
    ],
)  # fmt: skip
def test_an_address_that_can_lead_inside_is_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111"])
def test_others_are(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))
