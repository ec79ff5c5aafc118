"""The command line: one file a command group; it parses, calls and prints."""

import os

# Before torch loads its thread pool: waiting threads sleep instead of spinning. On a machine that is
# shared with another busy process spinning makes small models tens of times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
