"""A runtime executor for LocalStack: each execution environment is a child process."""
