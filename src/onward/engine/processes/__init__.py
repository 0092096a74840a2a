"""Child processes that steps are called in."""
