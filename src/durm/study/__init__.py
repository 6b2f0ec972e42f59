"""Studies: a spec becomes trials, executors run them, a store keeps what they leave."""
