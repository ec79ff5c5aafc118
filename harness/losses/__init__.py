"""Loss functions: pure functions on tensors."""
