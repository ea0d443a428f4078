"""Record the probe calls of one process, and limit how much of the run is kept."""
