"""The loss programs on torch: the real thing that is measured and that training code runs."""
