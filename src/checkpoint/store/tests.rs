use headwater_connectors::{Position, SourceState};
use object_store::memory::InMemory;

use super::*;

fn record(number: i64, epoch: u64) -> Record {
    Record {
        format: FORMAT,
        number,
        epoch,
        instance: format!("i{epoch}"),
        job: "j".into(),
        commit_user: "u".into(),
        created_ms: number,
        source: SourceState {
            position: Position::Log { offset: 1 },
            connector: serde_json::json!({ "big": "x".repeat(2 * SIDE_BYTES) }),
        },
        next_sequence: 1,
        event_time_ms: None,
        committed_before: false,
        tables: vec![],
        commits: vec![],
        tag: None,
        tagged_ms: None,
    }
}

fn state() -> StateStore {
    StateStore::new(Arc::new(InMemory::new()), Path::from("state"))
}

#[tokio::test]
async fn records_read_back_with_their_sides() {
    let state = state();
    state.create(&record(1, 1)).await.unwrap();
    state.create(&record(2, 1)).await.unwrap();
    assert_eq!(
        state.newest().await.unwrap().unwrap(),
        (record(2, 1), false)
    );
    let marker = record(2, 1).marker([("d.t".to_owned(), 4)].into());
    state.mark_committed(&marker).await.unwrap();
    state.mark_committed(&marker).await.unwrap();
    assert!(state.newest().await.unwrap().unwrap().1);
}

#[tokio::test]
async fn a_second_instance_is_fenced() {
    let state = state();
    state.create(&record(1, 1)).await.unwrap();
    state.create(&record(2, 2)).await.unwrap();
    let late = state.create(&record(2, 1)).await;
    assert!(matches!(late, Err(StateError::Fenced { .. })));
    let marker = record(2, 2).marker([].into());
    state.mark_committed(&marker).await.unwrap();
    let late = state.create(&record(2, 1)).await;
    assert!(matches!(late, Err(StateError::Fenced { .. })));
}

#[tokio::test]
async fn a_create_after_the_successor_has_pruned_is_void() {
    let state = state();
    for number in 1..=9 {
        state.create(&record(number, 1)).await.unwrap();
    }
    state.prune(3).await.unwrap();
    assert_eq!(state.numbers().await.unwrap(), [7, 8, 9]);
    let late = state.create(&record(5, 0)).await;
    assert!(matches!(late, Err(StateError::Fenced { .. })));
    assert_eq!(state.numbers().await.unwrap(), [7, 8, 9]);
}

#[tokio::test]
async fn a_marker_is_of_one_record_only() {
    let state = state();
    let marker = record(1, 7).marker([].into());
    state.mark_committed(&marker).await.unwrap();
    let error = state.create(&record(1, 1)).await.unwrap_err().to_string();
    assert!(error.contains("committed.json is damaged"), "{error}");
    let other = record(1, 1).marker([].into());
    let error = state.mark_committed(&other).await;
    assert!(matches!(error, Err(StateError::Fenced { .. })));
}

#[tokio::test]
async fn the_store_is_probed() {
    state().probe().await.unwrap();
}

#[tokio::test]
async fn a_damaged_record_is_named() {
    let state = state();
    state.create(&record(1, 1)).await.unwrap();
    let path = state.record_path(1);
    state
        .store
        .put(&path, PutPayload::from_static(b"{\"format\": 1"))
        .await
        .unwrap();
    let error = state.newest().await.unwrap_err().to_string();
    assert!(error.contains("checkpoint-00000000000000000001.json is damaged"));
}
