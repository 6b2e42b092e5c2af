"""Model APIs: one file a dialect, no vendor SDK."""
