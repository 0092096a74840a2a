"""What people ask and do besides running; adapters are handed in."""
