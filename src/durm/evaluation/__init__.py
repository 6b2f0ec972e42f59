"""How good a model is, from its logits."""
