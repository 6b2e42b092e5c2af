"""What the model sees besides the conversation: the system prompt, compaction, spill files."""
