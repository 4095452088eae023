//! The generic HTTP agent's remote service.
