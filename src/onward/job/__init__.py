"""What the user describes: a job with its source, steps, resources, params and policies."""
