"""What axonkernel costs, beside the bare thing, in one run; see README.md."""
