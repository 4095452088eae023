//! The Lambda shell: Kafka event parsing and partial batch responses.
