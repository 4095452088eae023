//! Workflow definitions as data: model, loading, checks, content hash and expressions.
