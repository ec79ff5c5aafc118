"""Planning: the runs requested, the inputs they read, and the work left to do."""
