"""Rehearsals: a user's own pipeline, killed at every boundary and resumed, on a store that is thrown away."""
