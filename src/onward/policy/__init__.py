"""Pure decisions: tables and functions without I/O, clock or randomness."""
