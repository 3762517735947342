"""python -m tests.repops.modules: writes docs/tracing.md."""

import sys

from tests.repops.modules.table import main

sys.exit(main())
