//! Where barriers may stand: asked by the tail at every transaction edge.
//!
//! The rules are those of the protocol (docs: ARCHITECTURE.md, "Snapshot and tail"): a barrier
//! never stands inside a round of chunk reads, that is after its L and before its H; while a round
//! is being set up none stands at all; and the first one stands behind the point where the schemas
//! were read.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use headwater_connectors::{BarrierGate, Position};
use tokio::sync::Notify;

/// Decides about barriers. One for each run of the tail.
#[derive(Debug)]
pub struct Gate {
    /// False while no edge can matter: the tail's fast way out.
    attention: AtomicBool,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// A checkpoint is asked for.
    requested: bool,
    /// A checkpoint is asked for where the tail gets here.
    requested_at: Option<Position>,
    /// A barrier stands and its checkpoint is not finished.
    in_flight: bool,
    /// A round is being set up: E is known or asked for, L is not yet.
    held: bool,
    /// The next edge is to be noted in `edge`.
    edge_wanted: bool,
    edge: Option<Position>,
    /// No barrier before this position; taken away when it is passed.
    floor: Option<Position>,
    /// Rounds that no barrier includes yet.
    rounds: Vec<Bounds>,
    /// Rounds that the last barrier includes, until its checkpoint takes them.
    included: Vec<u64>,
}

#[derive(Debug)]
struct Bounds {
    id: u64,
    low: Position,
    high: Option<Position>,
}

impl Gate {
    /// A gate that lets no barrier stand before `floor`.
    pub fn new(floor: Option<Position>) -> Self {
        Self {
            attention: AtomicBool::new(false),
            state: Mutex::new(State {
                floor,
                ..State::default()
            }),
            changed: Notify::new(),
        }
    }

    /// Asks for a checkpoint at the next edge that allows it.
    pub fn request(&self) {
        self.update(|state| state.requested = true);
    }

    /// Asks for a checkpoint at the first edge at or after `position` that allows it.
    pub fn request_at(&self, position: Position) {
        self.update(|state| state.requested_at = Some(position));
    }

    /// The checkpoint of the last barrier is finished: the next barrier may stand.
    pub fn finished(&self) {
        self.update(|state| state.in_flight = false);
    }

    /// Begins to set up a round: lets no barrier stand from now on and gives the next edge of the
    /// tail, which contains every barrier placed so far.
    pub async fn hold(&self) -> Position {
        self.update(|state| {
            state.held = true;
            state.edge_wanted = true;
            state.edge = None;
        });
        loop {
            let changed = self.changed.notified();
            if let Some(edge) = self.lock().edge.take() {
                return edge;
            }
            changed.await;
        }
    }

    /// Gives up setting up a round.
    pub fn release(&self) {
        self.update(|state| {
            state.held = false;
            state.edge_wanted = false;
        });
    }

    /// The round has its L: from now on its bounds decide.
    pub fn begin_round(&self, id: u64, low: Position) {
        self.update(|state| {
            state.held = false;
            state.rounds.push(Bounds {
                id,
                low,
                high: None,
            });
        });
    }

    /// The round has its H.
    pub fn end_round(&self, id: u64, high: Position) {
        self.update(|state| {
            if let Some(round) = state.rounds.iter_mut().find(|round| round.id == id) {
                round.high = Some(high);
            }
        });
    }

    /// The rounds that the barrier just placed includes.
    pub fn take_included(&self) -> Vec<u64> {
        std::mem::take(&mut self.lock().included)
    }

    /// Waits until a barrier includes the round.
    pub async fn wait_included(&self, id: u64) {
        loop {
            let changed = self.changed.notified();
            if self.lock().rounds.iter().all(|round| round.id != id) {
                return;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        self.attention.store(state.attention(), Ordering::Release);
        drop(state);
        self.changed.notify_waiters();
    }
}

impl State {
    fn attention(&self) -> bool {
        self.edge_wanted
            || self.requested_at.is_some()
            || (self.requested && !self.in_flight && !self.held)
    }

    fn allows(&self, position: &Position) -> bool {
        self.floor
            .as_ref()
            .is_none_or(|floor| position.is_at_or_after(floor))
            && self
                .rounds
                .iter()
                .all(|round| position.is_contained_in(&round.low) || round.is_included_at(position))
    }

    fn include(&mut self, position: &Position) {
        let included = &mut self.included;
        self.rounds.retain(|round| {
            let includes = round.is_included_at(position);
            if includes {
                included.push(round.id);
            }
            !includes
        });
    }
}

impl Bounds {
    fn is_included_at(&self, position: &Position) -> bool {
        self.high
            .as_ref()
            .is_some_and(|high| position.is_at_or_after(high))
    }
}

impl BarrierGate for Gate {
    fn wants(&self, position: &Position) -> bool {
        if !self.attention.load(Ordering::Acquire) {
            return false;
        }
        let mut state = self.lock();
        if state.edge_wanted {
            state.edge_wanted = false;
            state.edge = Some(position.clone());
        }
        let is_there = |wanted: &Position| position.is_at_or_after(wanted);
        if state.requested_at.as_ref().is_some_and(is_there) {
            state.requested_at = None;
            state.requested = true;
        }
        let places = state.requested && !state.in_flight && !state.held && state.allows(position);
        if places {
            state.requested = false;
            state.in_flight = true;
            state.floor = None;
            state.include(position);
        }
        self.attention.store(state.attention(), Ordering::Release);
        drop(state);
        self.changed.notify_waiters();
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> Position {
        Position::Log { offset }
    }

    #[test]
    fn no_barrier_inside_a_round() {
        let gate = Gate::new(None);
        gate.begin_round(1, at(10));
        gate.request();
        assert!(!gate.wants(&at(11)), "after L, H is not known");
        gate.end_round(1, at(20));
        assert!(!gate.wants(&at(19)), "before H");
        assert!(gate.wants(&at(20)), "at H");
        assert_eq!(gate.take_included(), [1]);
    }

    #[test]
    fn a_lagging_tail_places_barriers_between_rounds() {
        let gate = Gate::new(None);
        for (id, low, high) in [(1, 10, 20), (2, 30, 40)] {
            gate.begin_round(id, at(low));
            gate.end_round(id, at(high));
        }
        gate.request();
        assert!(gate.wants(&at(5)), "before both");
        assert!(gate.take_included().is_empty());
        gate.finished();
        gate.request();
        assert!(!gate.wants(&at(15)));
        assert!(gate.wants(&at(25)), "between them");
        assert_eq!(gate.take_included(), [1]);
        gate.finished();
        gate.request();
        assert!(!gate.wants(&at(35)));
    }

    #[test]
    fn no_barrier_while_a_round_is_set_up_or_a_checkpoint_runs() {
        let gate = Gate::new(Some(at(3)));
        gate.request();
        assert!(!gate.wants(&at(2)), "before the floor");
        assert!(gate.wants(&at(3)));
        gate.request();
        assert!(!gate.wants(&at(4)), "in flight");
        gate.finished();
        gate.update(|state| state.held = true);
        assert!(!gate.wants(&at(4)), "held");
        gate.release();
        assert!(gate.wants(&at(4)));
    }

    #[test]
    fn a_checkpoint_is_asked_for_at_a_place() {
        let gate = Gate::new(None);
        gate.request_at(at(5));
        assert!(!gate.wants(&at(4)));
        assert!(gate.wants(&at(6)));
        gate.finished();
        assert!(!gate.wants(&at(7)), "only once");
    }

    #[tokio::test]
    async fn hold_gives_the_next_edge() {
        let gate = std::sync::Arc::new(Gate::new(None));
        let held = tokio::spawn({
            let gate = gate.clone();
            async move { gate.hold().await }
        });
        tokio::task::yield_now().await;
        gate.request();
        assert!(!gate.wants(&at(7)));
        assert_eq!(held.await.unwrap(), at(7));
    }
}
