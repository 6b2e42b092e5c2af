"""The command line: arguments, output, exit statuses."""
