"""Facts about this machine, no opinions; None means "could not find out"."""
