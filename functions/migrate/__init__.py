"""Migrations and orgs as a Lambda."""
