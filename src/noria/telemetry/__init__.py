"""What a session cost and did, told from its events."""
