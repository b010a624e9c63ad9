"""`python -m cems` is the same program as `cems`; the services and `cems up` start it this way."""

import sys

from cems.cli import main

if __name__ == "__main__":
    sys.exit(main())
