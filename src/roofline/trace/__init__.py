"""What a profiler recorded of a real run: columns of events, whatever file they are from."""
