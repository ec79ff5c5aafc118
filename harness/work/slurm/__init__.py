"""The executor of SLURM."""
