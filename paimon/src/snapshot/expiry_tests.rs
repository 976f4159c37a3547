use crate::{
    CommitRequest, Retention, WriteBuffer, WriteSettings,
    commit::TableCommitter,
    compact::{CompactScope, CompactSettings, Compactor},
    fixture::{INT_COLUMNS, fixture, int_batch},
    storage,
};

/// Snapshots that expire as soon as the next one is there: who reads the newest one takes the next.
#[tokio::test(flavor = "multi_thread")]
async fn readers_of_the_newest_snapshot_outrun_its_expiry() {
    const COMMITS: i64 = 150;
    let fixture = fixture(&INT_COLUMNS, &["id"], &[], &[]);
    let schema = serde_json::to_vec(fixture.table.schema()).unwrap();
    let path = fixture.table.schema_path(0);
    let put = storage::put(fixture.table.store().as_ref(), &path, schema);
    put.await.unwrap();
    let writer = fixture.table.clone();
    let writing = tokio::spawn(async move {
        let keep = Retention::of(writer.schema()).unwrap().keep(1);
        for number in 1..=COMMITS {
            let mut buffer = WriteBuffer::new(writer.clone(), WriteSettings::default()).unwrap();
            let row = int_batch(&[(number as i32 % 7, Some(number as i32))]);
            buffer.write(&row, None, number).unwrap();
            let messages = buffer.flush().await.unwrap();
            let request = CommitRequest::new("writer".to_owned(), number, messages);
            writer.commit(&request).await.unwrap();
            writer.expire_snapshots(&keep).await.unwrap();
        }
    });
    let mut reads = 0;
    while !writing.is_finished() {
        let table = &fixture.table;
        table.read().splits().await.unwrap();
        table.max_sequence_number().await.unwrap();
        let mut committer = TableCommitter::new(table.clone());
        committer.max_sequence_number().await.unwrap();
        let settings = CompactSettings {
            memory_bytes: 64 << 20,
            parallelism: 1,
            keep_deletes: false,
        };
        let mut compactor = Compactor::new(table.clone(), settings).unwrap();
        let messages = compactor.run(CompactScope::Full, |_| true).await.unwrap();
        compactor.discard(&messages).await;
        reads += 1;
    }
    writing.await.unwrap();
    assert!(reads > 0);
    assert_eq!(fixture.table.snapshot_ids().await.unwrap(), [COMMITS]);
}
