"""The state database, and who in the network reaches whom."""

from __future__ import annotations

import pytest

from infra.environments import ENVIRONMENTS, Database
from tests.infra.templates import CLOUD, Templates

REACHES = {
    ("Control", "Database", 5432),
    ("Control", "Data", 5432),
    ("Worker", "Data", 5432),
    ("Runner", "Data", 5432),
    ("Control", "Services", 443),
    ("Runner", "Services", 443),
    ("Worker", "Services", 443),
    ("Worker", "Internal", 443),
    ("Worker", "Task", 443),
    ("Runner", "Task", 443),
}


@pytest.mark.parametrize("environment", CLOUD)
def test_the_databases_are_encrypted_private_and_protected(
    templates: Templates, environment: str
) -> None:
    data = ENVIRONMENTS[environment]
    assert isinstance(data.database, Database)
    wanted = {"trace_state": data.database}
    if data.data_database is not None:
        wanted["trace_data"] = data.data_database
    found = {
        each.properties["DBName"]: each
        for each in templates.resources(environment, "AWS::RDS::DBInstance")
    }
    assert set(found) == set(wanted)
    for name, instance in found.items():
        properties = instance.properties
        assert properties["EngineVersion"].startswith("18")
        assert properties["StorageEncrypted"] is True
        assert properties["PubliclyAccessible"] is False
        assert properties["MultiAZ"] is (environment != "dev")
        assert properties["DeletionProtection"] is (environment != "dev")
        assert properties["BackupRetentionPeriod"] == wanted[name].backup_days >= 1
        assert "{{resolve:secretsmanager:" in str(properties["MasterUserPassword"])
        policy = "Delete" if environment == "dev" else "Snapshot"
        assert instance.body["DeletionPolicy"] == policy
    (group,) = templates.resources(environment, "AWS::RDS::DBParameterGroup")
    assert group.properties["Parameters"]["rds.force_ssl"] == "1"


@pytest.mark.parametrize("environment", CLOUD)
def test_whoever_reaches_the_data_database_reaches_the_state_only_where_they_share_a_server(
    templates: Templates, environment: str
) -> None:
    groups = {
        each.properties["DBName"]: str(each.properties["VPCSecurityGroups"])
        for each in templates.resources(environment, "AWS::RDS::DBInstance")
    }
    shared = environment == "dev"
    assert "FnGetAttDatabase" in groups["trace_state"]
    assert ("FnGetAttData" in groups["trace_state"].replace("FnGetAttDatabase", "")) == shared
    if not shared:
        assert "FnGetAttDatabase" not in groups["trace_data"]


def test_local_has_neither_database_nor_network(templates: Templates) -> None:
    assert templates.stacks("local") == {"storage", "control_plane", "observability"}


@pytest.mark.parametrize("environment", CLOUD)
def test_each_group_reaches_what_it_must_and_nothing_else(
    templates: Templates, environment: str
) -> None:
    def name(reference: dict[str, list[str]]) -> str:
        return reference["Fn::GetAtt"][0].rstrip("0123456789ABCDEF")

    found = set()
    for rule in templates.resources(environment, "AWS::EC2::SecurityGroupIngress"):
        properties = rule.properties
        assert properties["FromPort"] == properties["ToPort"]
        found.add(
            (
                name(properties["SourceSecurityGroupId"]),
                name(properties["GroupId"]),
                properties["FromPort"],
            )
        )
    assert found == REACHES
    for group in templates.resources(environment, "AWS::EC2::SecurityGroup"):
        assert "SecurityGroupIngress" not in group.properties, "no group is open to addresses"
        open_to = {
            each["CidrIp"]
            for each in group.properties.get("SecurityGroupEgress", [])
            if each["CidrIp"] == "0.0.0.0/0"
        }
        may = group.logical_id.startswith(("Control", "Worker", "Runner"))
        assert bool(open_to) == may, group.logical_id


@pytest.mark.parametrize("environment", CLOUD)
def test_subnets_give_no_public_addresses_and_refusals_are_logged(
    templates: Templates, environment: str
) -> None:
    for subnet in templates.resources(environment, "AWS::EC2::Subnet"):
        assert subnet.properties.get("MapPublicIpOnLaunch", False) is False
    (flow,) = templates.resources(environment, "AWS::EC2::FlowLog")
    assert flow.properties["TrafficType"] == "REJECT"


@pytest.mark.parametrize("environment", CLOUD)
def test_the_services_that_isolated_functions_use_have_endpoints(
    templates: Templates, environment: str
) -> None:
    region = ENVIRONMENTS[environment].region
    services = sorted(
        str(each.properties["ServiceName"]).split(f"{region}.")[-1].split("'")[0]
        for each in templates.resources(environment, "AWS::EC2::VPCEndpoint")
        if each.properties["VpcEndpointType"] == "Interface"
    )
    assert services == sorted(
        ["execute-api", "execute-api", "kms", "lambda", "secretsmanager", "sqs"]
    )
    gateways = [
        each
        for each in templates.resources(environment, "AWS::EC2::VPCEndpoint")
        if each.properties["VpcEndpointType"] == "Gateway"
    ]
    assert len(gateways) == 1


def test_networks_do_not_overlap() -> None:
    ranges = [data.network.cidr for data in ENVIRONMENTS.values() if data.network]
    assert len(set(ranges)) == len(ranges) == 3
