"""Noria: an agent runtime."""
