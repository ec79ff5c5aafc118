"""Loss functions: pure functions on tensors, one file a paper: SimCSE and MCSE, KDMCSE, DALR, NonLing."""
