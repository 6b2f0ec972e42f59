"""Other people's training loops."""
