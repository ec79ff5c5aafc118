"""What is asked for, what it reads, and what is left to do."""
