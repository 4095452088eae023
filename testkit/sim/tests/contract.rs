//! The simulated ports keep the contracts that they stand in for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use triad_sim::{Ports, calm_ports, contract, run_on};

/// Runs a contract in the world of the ports, to its end.
fn runs(ports: &Ports, contract: impl Future<Output = ()> + Send + 'static) {
    let done = Arc::new(AtomicBool::new(false));
    let end = done.clone();
    run_on(ports, async move {
        contract.await;
        end.store(true, Ordering::SeqCst);
    });
    assert!(done.load(Ordering::SeqCst), "the contract ran to its end");
}

#[test]
fn the_simulated_store_keeps_the_contract_of_a_state_store() {
    let ports = calm_ports(1);
    let store = ports.clone();
    runs(&ports, async move {
        contract::store::all(&store, "sim", &contract::TakingTurns).await;
    });
}

#[test]
fn the_simulated_store_keeps_the_contract_of_expiry() {
    let ports = calm_ports(1);
    let store = contract::SimulatedStore::of(&ports);
    runs(&ports, async move {
        contract::expiry::all(&store, "sim").await;
    });
}

#[test]
fn the_simulated_store_keeps_the_contract_of_an_operators_store() {
    let ports = calm_ports(1);
    let store = ports.clone();
    runs(&ports, async move {
        contract::operator::all(&store, "sim").await;
    });
}

#[test]
fn the_simulated_store_keeps_the_contract_of_a_control_store() {
    let ports = calm_ports(1);
    let store = contract::SimulatedStore::of(&ports);
    runs(&ports, async move {
        contract::control::all(&store, "sim").await;
    });
}

#[test]
fn the_simulated_bus_keeps_the_contract_of_a_bus() {
    let ports = calm_ports(1);
    let bus = contract::SimulatedBus::of(&ports);
    runs(&ports, async move { contract::bus::all(&bus).await });
}
