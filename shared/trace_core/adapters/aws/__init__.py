"""The ports on AWS: SQS, S3, Lambda, Secrets Manager, KMS, STS."""
