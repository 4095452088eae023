//! The pure decision core: order, process record, decide and plan.
