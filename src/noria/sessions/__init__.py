"""Sessions on disk: the SQLite journal, leases, attachments."""
