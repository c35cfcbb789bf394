"""``python -m iclab``."""

import os
import sys

if sys.path[0] == os.getcwd():  # Python puts it first, where a file such as json.py would hide the module that is meant
    sys.path.append(sys.path.pop(0))

from iclab.cli import main

if __name__ == "__main__":
    sys.exit(main())
