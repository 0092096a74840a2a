"""Requests that go out together: how they are put together, and carried there and back."""
