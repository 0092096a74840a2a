from __future__ import annotations


class Adaptive:
    def __init__(self, most, least=1):
        self.limit = most

    def throttled(self, now): ...
    def answered(self, now, seconds): ...
