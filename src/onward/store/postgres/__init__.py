"""The PostgreSQL store, through psycopg 3, which is loaded when an address names it."""
