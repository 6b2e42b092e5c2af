"""The built-in tools, their schemas, and how their results are bounded."""
