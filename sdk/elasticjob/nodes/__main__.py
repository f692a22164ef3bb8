"""The public path of `elasticjob.multinode.__main__`."""

import sys

from elasticjob.multinode.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
