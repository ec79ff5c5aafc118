"""Tables filled, judged and worded."""
