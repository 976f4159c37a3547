//! Looks after a table: `maintain WAREHOUSE DATABASE TABLE VERB [ARGUMENT]`.
//!
//! ```text
//! check                  walks everything and lists what is wrong
//! expire N               keeps N snapshots, and what tags, branches and consumers need
//! tag NAME | untag NAME  names the newest snapshot | forgets the name
//! rollback N | TAG       goes back
//! orphans                lists files that nothing refers to, a day old or more
//! ```

use std::error::Error;

use headwater_paimon::{Catalog, CheckRequest, OrphanRequest, Retention, TagRequest};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [warehouse, database, table, verb, rest @ ..] = args.as_slice() else {
        return Err("usage: maintain WAREHOUSE DATABASE TABLE VERB [ARGUMENT]".into());
    };
    let catalog = Catalog::local(*warehouse)?;
    let table = catalog.table(database, table).await?;
    let table = table.ok_or("there is no such table")?;
    match (*verb, rest) {
        ("check", []) => {
            let report = table.check(&CheckRequest::default()).await?;
            for problem in &report.problems {
                println!("{problem}");
            }
            println!(
                "{} problems: {} snapshots, {} files, {} rows, {} orphans",
                report.problems.len(),
                report.snapshots,
                report.files,
                report.rows,
                report.orphans.len()
            );
        }
        ("expire", [kept]) => {
            let policy = Retention::of(table.schema())?.keep(kept.parse()?);
            println!("{:?}", table.expire_snapshots(&policy).await?);
        }
        ("tag", [name]) => {
            let tag = table.create_tag(name, &TagRequest::default()).await?;
            println!("{} is snapshot {}", tag.name, tag.snapshot.id);
        }
        ("untag", [name]) => println!("deleted: {}", table.delete_tag(name).await?),
        ("rollback", [to]) => match to.parse() {
            Ok(id) => table.rollback_to_snapshot(id).await?,
            Err(_) => table.rollback_to_tag(to).await?,
        },
        ("orphans", []) => {
            for file in table.clean_orphans(&OrphanRequest::default()).await?.files {
                println!("{} ({} bytes)", file.path, file.bytes);
            }
        }
        _ => return Err(format!("unknown verb or wrong arguments: {verb}").into()),
    }
    Ok(())
}
