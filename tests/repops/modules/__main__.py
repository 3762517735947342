"""python -m tests.repops.modules: writes docs/guides/tracing.md."""

import sys

from tests.repops.modules.table import main

sys.exit(main())
