"""Where results go: files that appear whole or not at all, and standard output."""
