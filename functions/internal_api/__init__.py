"""The internal API as a Lambda."""
