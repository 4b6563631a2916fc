"""The walls the operating system holds: plans are values, and little touches the system."""
