"""Runs operator code in child processes and speaks the task contract for it."""
