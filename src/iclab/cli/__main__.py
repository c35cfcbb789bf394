"""``python -m iclab.cli``."""

import sys

from iclab.cli import main

if __name__ == "__main__":
    sys.exit(main())
