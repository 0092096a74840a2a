"""`python -m onward` is the command line."""

from __future__ import annotations

import sys

from onward.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
