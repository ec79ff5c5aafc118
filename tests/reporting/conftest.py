"""Put this folder on the path, for the samples that tests of all rooms of reporting share."""
