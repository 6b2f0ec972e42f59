"""The optional parts of a training, one file each."""
