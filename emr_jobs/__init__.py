"""PySpark operators: the same files on a warm local session and on EMR Serverless."""
