//! The reference remote service: honours the contract, keeps a ledger and misbehaves on request.
