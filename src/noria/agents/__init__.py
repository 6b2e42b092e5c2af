"""Agents that a person has written down: what each is for, and what it may do. See docs/guides/agents.md."""
