use super::*;

/// As Java 1.4.2 writes it, with members of later writers.
const JAVA: &str = r#"{"version":3,"uuid":"x","id":2,"schemaId":0,"baseManifestList":"manifest-list-a-0",
"baseManifestListSize":1110,"deltaManifestList":"manifest-list-a-1","deltaManifestListSize":1113,
"commitUser":"oracle","commitIdentifier":2,"commitKind":"APPEND","timeMillis":1796003294432,
"totalRecordCount":6,"deltaRecordCount":3,"watermark":null,"operation":"WRITE","nextRowId":0}"#;

#[test]
fn members_are_written_as_java_does() {
    let snapshot: PaimonSnapshot = serde_json::from_str(JAVA).unwrap();
    assert_eq!(snapshot.commit_kind, CommitKind::Append);
    let text = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(
        text,
        JAVA.replace("\n", "")
            .replace(r#""uuid":"x","#, "")
            .replace(r#""watermark":null,"operation":"WRITE","#, "")
    );
}
