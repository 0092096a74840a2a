"""The oracle: what steps did, kept outside the store, and a judge who was not there."""
