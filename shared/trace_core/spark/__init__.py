"""PySpark operators under the task contract: their runs, what they are given, what they leave."""
