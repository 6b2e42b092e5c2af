"""Servers of tools that speak MCP (Model Context Protocol): started, asked, restarted, ended."""
