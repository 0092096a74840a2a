"""`python -m onward` is the command line."""

from __future__ import annotations

import sys

from onward.job.folders import put_first_folder_back

if __name__ == "__main__":
    put_first_folder_back()  # before anything that could be found in the current folder is imported

    from onward.cli.main import main

    sys.exit(main())
