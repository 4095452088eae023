//! The simulated ports keep the contracts that they stand in for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use triad_sim::{calm_ports, contract, run_on};

#[test]
fn the_simulated_store_keeps_the_contract_of_a_state_store() {
    let ports = calm_ports(1);
    let store = ports.clone();
    let done = Arc::new(AtomicBool::new(false));
    let end = done.clone();
    run_on(&ports, async move {
        contract::store::all(&store, "sim").await;
        end.store(true, Ordering::SeqCst);
    });
    assert!(done.load(Ordering::SeqCst), "the contract ran to its end");
}

#[test]
fn the_simulated_bus_keeps_the_contract_of_a_bus() {
    let ports = calm_ports(1);
    let bus = contract::SimulatedBus::of(&ports);
    let done = Arc::new(AtomicBool::new(false));
    let end = done.clone();
    run_on(&ports, async move {
        contract::bus::all(&bus).await;
        end.store(true, Ordering::SeqCst);
    });
    assert!(done.load(Ordering::SeqCst), "the contract ran to its end");
}
