"""The outbox relay as a Lambda."""
