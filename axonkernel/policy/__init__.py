"""The policy language: parsing, deciding, narrowing. Pure: it never touches the system."""
