"""The user API as a Lambda."""
