"""AI jobs: prompts, models and what they cost."""
