"""The executor of Ray clusters."""
