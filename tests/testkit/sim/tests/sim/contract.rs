//! The simulated ports fulfil the contracts of the real ones.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use triad_core::topics;
use triad_sim::contract::bus::BusUnderTest;
use triad_sim::{Ports, calm_machine, calm_ports, contract, run_on};

/// Runs a contract to its end, in the world of these ports.
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

#[test]
fn the_simulated_store_of_one_machine_keeps_the_contract_of_a_store_with_topics() {
    let ports = calm_machine(1);
    let store = contract::SimulatedBus::of(&ports);
    runs(&ports, async move {
        for topic in [topics::STATUS, topics::ALERTS] {
            store.create(topic).await;
        }
        contract::topics::all(&store, "sim").await;
    });
}

#[test]
fn the_simulated_store_of_one_machine_keeps_the_contract_of_a_state_store() {
    let ports = calm_machine(1);
    let store = ports.clone();
    runs(&ports, async move {
        contract::store::all(&store, "sim", &contract::TakingTurns).await;
    });
}

#[test]
fn what_is_observed_of_a_store_depends_on_the_seed_alone() {
    let observe = |seed| {
        let ports = calm_ports(1);
        let (store, seen) = (ports.clone(), Arc::new(Mutex::new(Vec::new())));
        let kept = seen.clone();
        runs(&ports, async move {
            *kept.lock().unwrap() = contract::random::observed(&store, "r", seed, 200).await;
        });
        std::mem::take(&mut *seen.lock().unwrap())
    };
    let first = observe(1);
    assert_eq!(first, observe(1));
    assert_ne!(first, observe(2));
    for kind in ["Created", "Exists", "Written", "Conflict", "None", "Some"] {
        assert!(first.iter().any(|seen| seen.contains(kind)), "no {kind}");
    }
}
