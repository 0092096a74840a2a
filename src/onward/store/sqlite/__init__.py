"""The SQLite store, on the SQLite that the apsw wheel carries."""
