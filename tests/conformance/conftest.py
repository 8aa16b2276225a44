"""Plugins that leave the same trace in both languages and in both programs.

``tests/data/conformance.json`` holds what the real opencode left of the plugins in TypeScript; ``make test-clients``
plays them there again, and RECORD=1 records them anew. Those in TypeScript run in instar where that installed what
plugins import.
"""

import os

from tests.conformance.playing import npm

collect_ignore = [] if npm(os.environ) else ["test_typescript.py"]
