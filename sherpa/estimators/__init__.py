"""How counts become a distribution over what comes next: blended orders, mixtures, calibration, sets."""
