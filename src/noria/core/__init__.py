"""The pure part: values, rules, encodings, ports. Imports the standard library's types and msgspec, nothing else."""
