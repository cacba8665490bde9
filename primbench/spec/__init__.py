"""What is asked for: how to measure, where, which cases, in which arms of which study."""
