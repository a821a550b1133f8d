"""The reaper as a Lambda."""
