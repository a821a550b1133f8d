"""One operator each: pure `DataFrame -> DataFrame` functions, and one `run(task, io)`."""
