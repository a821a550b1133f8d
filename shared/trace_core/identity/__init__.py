"""Orgs, members, and the tokens of workers and tasks."""
