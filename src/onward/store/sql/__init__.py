"""What the SQL stores share: all of it but connections, migrations and the SQL itself."""
