"""What may run: the mode table and the gates."""
