"""The task API as a Lambda."""
