"""Schedules for a processor with SIMD lanes and threads."""
