"""What outlives a release: objects, the signing key, the secrets of each org."""

from __future__ import annotations

from aws_cdk import Aws, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.environments import Environment
from infra.functions import FUNCTIONS, Need

SPARK_LOGS = "spark-logs/"
WORKER_TOKEN = "worker_token"  # noqa: S105  # the name of the secret, not the secret
_ADMINISTRATION = [
    *("kms:DescribeKey", "kms:EnableKey", "kms:DisableKey", "kms:UpdateKeyDescription"),
    *("kms:GetKeyPolicy", "kms:PutKeyPolicy", "kms:ListKeyPolicies", "kms:ListResourceTags"),
    *("kms:TagResource", "kms:UntagResource", "kms:GetKeyRotationStatus", "kms:GetPublicKey"),
    *("kms:CreateAlias", "kms:UpdateAlias", "kms:DeleteAlias"),
    *("kms:ScheduleKeyDeletion", "kms:CancelKeyDeletion"),
]


class StorageStack(Stack):
    def __init__(
        self, scope: Construct, name: str, *, environment: Environment, **options: object
    ) -> None:
        super().__init__(scope, name, **options)
        self._environment = environment
        self._removal = RemovalPolicy.RETAIN if environment.keep_data else RemovalPolicy.DESTROY
        self.bucket = self._make_bucket()
        self.signing_key = self._make_signing_key()
        self.worker_tokens = [
            secretsmanager.Secret(
                self,
                f"WorkerToken{org.org_id.hex}",
                secret_name=environment.secret_name("platform", org, WORKER_TOKEN),
                description=f"What the workers of {org.name} show the internal API",
                generate_secret_string=secretsmanager.SecretStringGenerator(
                    # The random part of a worker token: 256 bits.
                    password_length=43,
                    exclude_punctuation=True,
                ),
                removal_policy=self._removal,
            )
            for org in environment.orgs
        ]

    def _make_bucket(self) -> s3.Bucket:
        locked: dict[str, object] = {
            "encryption": s3.BucketEncryption.S3_MANAGED,
            "block_public_access": s3.BlockPublicAccess.BLOCK_ALL,
            "object_ownership": s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            "enforce_ssl": True,
            "minimum_tls_version": 1.2,
            "removal_policy": self._removal,
        }
        access = s3.Bucket(
            self,
            "AccessLog",
            lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(90))],
            **locked,
        )
        return s3.Bucket(
            self,
            "Objects",
            # Data is deleted by the platform alone, which knows who still reads it.
            lifecycle_rules=[
                s3.LifecycleRule(abort_incomplete_multipart_upload_after=Duration.days(1)),
                # What Spark itself has to say about a run; what the operator printed is kept with
                # its task.
                s3.LifecycleRule(
                    prefix=SPARK_LOGS, expiration=Duration.days(self._environment.log_days)
                ),
            ],
            server_access_logs_bucket=access,
            **locked,
        )

    def _make_signing_key(self) -> kms.Key:
        signers = [
            f"arn:{Aws.PARTITION}:iam::{Aws.ACCOUNT_ID}:role/"
            + self._environment.function_name(function.name)
            for function in FUNCTIONS
            if function.needs & {Need.SIGN_TOKENS, Need.VERIFY_TOKENS}
        ]
        account = iam.AccountRootPrincipal()
        key = kms.Key(
            self,
            "SigningKey",
            description="Signs the capability tokens of tasks",
            key_spec=kms.KeySpec.ECC_NIST_P256,
            key_usage=kms.KeyUsage.SIGN_VERIFY,
            removal_policy=self._removal,
            policy=iam.PolicyDocument(
                statements=[
                    iam.PolicyStatement(
                        sid="Administration",
                        principals=[account],
                        actions=_ADMINISTRATION,
                        resources=["*"],
                    ),
                    # Whoever can sign can be any task: the policies of the account alone do not
                    # decide about that.
                    iam.PolicyStatement(
                        sid="Signing",
                        principals=[account],
                        actions=["kms:Sign", "kms:GetPublicKey"],
                        resources=["*"],
                        conditions={"ArnEquals": {"aws:PrincipalArn": signers}},
                    ),
                ]
            ),
        )
        key.add_alias(f"{self._environment.prefix}-tokens")
        return key
