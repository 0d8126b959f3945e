"""The driver's pod: reads its instructions, runs the topology, reports, and ends when told to."""
