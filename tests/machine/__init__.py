"""Checks of the loop that share no code with it."""
