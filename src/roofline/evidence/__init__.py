"""What is measured without a timeline: counters, collectives, benchmarks. Readers and their types, no judgement."""
