"""The benchmark: tasks, runs of a model over them, and what the results say."""
