"""A LocalStack of our own, without Docker: see docs/localstack.md."""
