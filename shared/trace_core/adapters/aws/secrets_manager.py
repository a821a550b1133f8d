"""Secrets in Secrets Manager: `<prefix>/<namespace>/<org id>/<name>`; a role gets a namespace."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from trace_core.adapters.aws.calls import calling, error_code
from trace_core.kernel.errors import NotFound, Unavailable
from trace_core.kernel.ids import OrgId
from trace_core.ports.secret_store import Namespace, check_secret, check_secret_name

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

_SERVICE = "The secret store"
_TRIES = 5
_PAUSE_SECONDS = 0.2


class SecretsManagerStore:
    """`SecretStore`; no value ever enters an error, a log or a repr."""

    def __init__(self, client: SecretsManagerClient, *, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def put(self, org_id: OrgId, namespace: Namespace, name: str, value: str) -> None:
        check_secret(name, value)
        secret_id = self._id(org_id, namespace, name)
        # Written by another, deleted by another: whoever comes second goes the other way.
        for _ in range(_TRIES):
            if self._replace(secret_id, value) or self._create(secret_id, value):
                return
            time.sleep(_PAUSE_SECONDS)
        raise Unavailable("The secret could not be written.", name=name)

    def _replace(self, secret_id: str, value: str) -> bool:
        with calling(_SERVICE):
            try:
                self._client.put_secret_value(SecretId=secret_id, SecretString=value)
            except ClientError as error:
                if error_code(error) in ("ResourceNotFoundException", "InvalidRequestException"):
                    return False
                raise
        return True

    def _create(self, secret_id: str, value: str) -> bool:
        with calling(_SERVICE):
            try:
                self._client.create_secret(Name=secret_id, SecretString=value)
            except ClientError as error:
                # The second: a deletion of the same name is still on its way.
                if error_code(error) in ("ResourceExistsException", "InvalidRequestException"):
                    return False
                raise
        return True

    def get(self, org_id: OrgId, namespace: Namespace, name: str) -> str:
        check_secret_name(name)
        with calling(_SERVICE):
            try:
                answer = self._client.get_secret_value(SecretId=self._id(org_id, namespace, name))
            except ClientError as error:
                if error_code(error) in ("ResourceNotFoundException", "InvalidRequestException"):
                    raise NotFound(name=name) from None
                raise
        return answer["SecretString"]

    def names(self, org_id: OrgId, namespace: Namespace) -> list[str]:
        prefix = self._id(org_id, namespace, "")
        pages = self._client.get_paginator("list_secrets").paginate(
            Filters=[{"Key": "name", "Values": [prefix]}]
        )
        with calling(_SERVICE):
            return sorted(
                each["Name"].removeprefix(prefix)
                for page in pages
                for each in page["SecretList"]
                # The filter matches by words and without regard to case.
                if each["Name"].startswith(prefix) and "DeletedDate" not in each
            )

    def delete(self, org_id: OrgId, namespace: Namespace, name: str) -> None:
        """For good and at once: a secret that was taken back must not be readable for a week."""
        check_secret_name(name)
        with calling(_SERVICE):
            try:
                self._client.delete_secret(
                    SecretId=self._id(org_id, namespace, name), ForceDeleteWithoutRecovery=True
                )
            except ClientError as error:
                if error_code(error) not in (
                    "ResourceNotFoundException",
                    "InvalidRequestException",
                ):
                    raise

    def _id(self, org_id: OrgId, namespace: Namespace, name: str) -> str:
        return f"{self._prefix}/{Namespace(namespace).value}/{org_id}/{name}"
