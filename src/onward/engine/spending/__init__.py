"""What calls of models may cost, and have cost."""
