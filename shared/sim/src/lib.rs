//! The simulated world: production handlers over simulated ports, one seed, virtual time.
