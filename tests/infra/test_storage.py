"""What outlives a release: locked down, and kept where it must be."""

from __future__ import annotations

import pytest

from infra.environments import ENVIRONMENTS
from tests.infra.templates import EVERYWHERE, Templates

CLOSED = {
    *("BlockPublicAcls", "BlockPublicPolicy"),
    *("IgnorePublicAcls", "RestrictPublicBuckets"),
}


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_buckets_are_private_encrypted_and_tls_only(templates: Templates, environment: str) -> None:
    buckets = templates.resources(environment, "AWS::S3::Bucket")
    assert len(buckets) == 2
    refusing = {
        policy.properties["Bucket"]["Ref"]
        for policy in templates.resources(environment, "AWS::S3::BucketPolicy")
        for statement in policy.properties["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    }
    for bucket in buckets:
        closed = bucket.properties["PublicAccessBlockConfiguration"]
        assert closed == dict.fromkeys(CLOSED, True)
        (rule,) = bucket.properties["OwnershipControls"]["Rules"]
        assert rule["ObjectOwnership"] == "BucketOwnerEnforced"
        assert bucket.properties["BucketEncryption"]
        assert bucket.logical_id in refusing


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_no_lifecycle_deletes_data(templates: Templates, environment: str) -> None:
    (objects,) = [
        each
        for each in templates.resources(environment, "AWS::S3::Bucket")
        if each.logical_id.startswith("Objects")
    ]
    rule, logs = objects.properties["LifecycleConfiguration"]["Rules"]
    assert set(rule) == {"AbortIncompleteMultipartUpload", "Status"}
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    assert logs["Prefix"] == "spark-logs/", "all rows and logs of tasks lie below org/"
    assert "LoggingConfiguration" in objects.properties


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_the_signing_key_signs_es256(templates: Templates, environment: str) -> None:
    (key,) = templates.resources(environment, "AWS::KMS::Key")
    assert key.properties["KeySpec"] == "ECC_NIST_P256"
    assert key.properties["KeyUsage"] == "SIGN_VERIFY"


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_every_org_has_a_worker_token_that_nobody_chose(
    templates: Templates, environment: str
) -> None:
    data = ENVIRONMENTS[environment]
    tokens = {
        each.properties["Name"]: each.properties
        for each in templates.resources(environment, "AWS::SecretsManager::Secret")
        if each.stack == "storage"
    }
    assert set(tokens) == {
        f"trace-{environment}/platform/{org.org_id}/worker_token" for org in data.orgs
    }
    for token in tokens.values():
        # What follows the prefix of a worker token, as the code expects it.
        assert token["GenerateSecretString"]["PasswordLength"] == 43
        assert "SecretString" not in token


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_data_outlives_its_stack_where_it_is_kept(templates: Templates, environment: str) -> None:
    wanted = "Retain" if ENVIRONMENTS[environment].keep_data else "Delete"
    kinds = ("AWS::S3::Bucket", "AWS::KMS::Key", "AWS::SecretsManager::Secret")
    for kind in kinds:
        for each in templates.resources(environment, kind):
            if each.stack == "storage":
                assert each.body["DeletionPolicy"] == wanted, each.logical_id


def test_staging_and_prod_keep_their_data() -> None:
    assert {name for name, data in ENVIRONMENTS.items() if data.keep_data} == {"staging", "prod"}
