"""Every secret store: kept apart by org and namespace, and silent about values."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from tests.conformance.harness import SecretStoreHarness
from trace_core.kernel.errors import Invalid, NotFound, TooLarge
from trace_core.kernel.ids import OrgId
from trace_core.ports.secret_store import Namespace

ORG = OrgId(UUID("01890000-0000-7000-8000-000000000001"))
OTHER_ORG = OrgId(UUID("01890000-0000-7000-8000-000000000002"))
USER, PLATFORM = Namespace.USER, Namespace.PLATFORM


def test_a_secret_is_read_back_by_whoever_opens_the_store(
    secret_stores: SecretStoreHarness,
) -> None:
    secret_stores.store.put(ORG, USER, "rpc_key", "v4lue")
    assert secret_stores.store.get(ORG, USER, "rpc_key") == "v4lue"
    assert secret_stores.another().get(ORG, USER, "rpc_key") == "v4lue"


def test_a_second_put_replaces_the_value(secret_stores: SecretStoreHarness) -> None:
    secret_stores.store.put(ORG, USER, "a", "1")
    secret_stores.store.put(ORG, USER, "a", "2")
    assert secret_stores.store.get(ORG, USER, "a") == "2"


def test_orgs_and_namespaces_do_not_see_each_other(secret_stores: SecretStoreHarness) -> None:
    store = secret_stores.store
    store.put(ORG, USER, "a", "user")
    store.put(ORG, PLATFORM, "a", "platform")
    assert (store.get(ORG, USER, "a"), store.get(ORG, PLATFORM, "a")) == ("user", "platform")
    for namespace in Namespace:
        assert store.names(OTHER_ORG, namespace) == []
        with pytest.raises(NotFound):
            store.get(OTHER_ORG, namespace, "a")
    store.delete(OTHER_ORG, USER, "a")
    store.delete(ORG, PLATFORM, "a")
    assert store.get(ORG, USER, "a") == "user"


def test_names_are_sorted_and_without_values(secret_stores: SecretStoreHarness) -> None:
    for name in ("b", "a", "c_2"):
        secret_stores.store.put(ORG, USER, name, "hidden")
    assert secret_stores.store.names(ORG, USER) == ["a", "b", "c_2"]


def test_a_deleted_secret_is_gone_and_may_be_deleted_again(
    secret_stores: SecretStoreHarness,
) -> None:
    secret_stores.store.put(ORG, USER, "a", "1")
    secret_stores.store.delete(ORG, USER, "a")
    secret_stores.store.delete(ORG, USER, "a")
    assert secret_stores.store.names(ORG, USER) == []
    with pytest.raises(NotFound) as caught:
        secret_stores.store.get(ORG, USER, "a")
    assert caught.value.fields == {"name": "a"}


@pytest.mark.parametrize("value", ["x", " ", "ž🦀\n\t\"'\\", "\x00", "x" * 65_536])
def test_any_text_is_kept(secret_stores: SecretStoreHarness, value: str) -> None:
    secret_stores.store.put(ORG, USER, "a", value)
    assert secret_stores.store.get(ORG, USER, "a") == value


def test_an_empty_or_oversize_value_is_refused(secret_stores: SecretStoreHarness) -> None:
    with pytest.raises(Invalid):
        secret_stores.store.put(ORG, USER, "a", "")
    with pytest.raises(TooLarge) as caught:
        secret_stores.store.put(ORG, USER, "a", "secret" * 11_000)
    assert "secretsecret" not in repr(caught.value) + str(caught.value.body())
    assert secret_stores.store.names(ORG, USER) == []


@pytest.mark.parametrize(
    "name", ["", "A", "1a", "_a", "a-b", "a.b", "a/b", "../a", "a\n", "a b", "ž", "a" * 129, "a\0"]
)
def test_a_name_of_another_form_is_refused_everywhere(
    secret_stores: SecretStoreHarness, name: str
) -> None:
    store = secret_stores.store
    with pytest.raises(Invalid) as caught:
        store.put(ORG, USER, name, "s3cret-value")
    assert "s3cret-value" not in repr(caught.value) + str(caught.value.body())
    with pytest.raises(Invalid):
        store.get(ORG, USER, name)
    with pytest.raises(Invalid):
        store.delete(ORG, USER, name)


def test_the_longest_name_is_kept(secret_stores: SecretStoreHarness) -> None:
    secret_stores.store.put(ORG, USER, "a" * 128, "1")
    assert secret_stores.store.names(ORG, USER) == ["a" * 128]


def test_concurrent_puts_lose_nothing(secret_stores: SecretStoreHarness) -> None:
    def put(number: int) -> None:
        secret_stores.another().put(ORG, USER, f"name_{number}", str(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(24)))
    assert len(secret_stores.store.names(ORG, USER)) == 24
    for number in range(24):
        assert secret_stores.store.get(ORG, USER, f"name_{number}") == str(number)


def test_the_store_shows_no_value_of_itself(secret_stores: SecretStoreHarness) -> None:
    secret_stores.store.put(ORG, USER, "a", "s3cret-value")
    assert "s3cret-value" not in repr(secret_stores.store) + repr(vars(secret_stores.store))
