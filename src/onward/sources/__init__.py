"""Adapters that read records: JSONL, CSV and Parquet files, folders, and functions that make iterables."""
