//! The state store on DynamoDB: the one crate that sees attribute values.
