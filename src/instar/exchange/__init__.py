"""Sessions as files: opencode's export JSON in both directions, and its database (issue 4, item 5).

Whatever comes in is untrusted: it is checked whole before anything is written, and one commit writes it.
"""

from instar.exchange.archive import LIMIT, read_archive
from instar.exchange.database import families, of_folder, read_family
from instar.exchange.export import export, plain_of
from instar.exchange.place import Choice, bring_in
from instar.exchange.redact import redacted
from instar.exchange.renew import renewed
from instar.exchange.transcript import ExchangeError, Here, Record, Taken, Transcript, transcript_of

__all__ = [
    "LIMIT",
    "Choice",
    "ExchangeError",
    "Here",
    "Record",
    "Taken",
    "Transcript",
    "bring_in",
    "export",
    "families",
    "of_folder",
    "plain_of",
    "read_archive",
    "read_family",
    "redacted",
    "renewed",
    "transcript_of",
]
