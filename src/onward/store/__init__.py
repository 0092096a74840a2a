"""Where the truth of a job is kept: one folder a technology."""
