"""Loss functions: pure functions on tensors, one file a family."""
