//! Who runs the job. The lease keeps a second instance from starting by mistake; it is the
//! numbered records, not the lease, that keep one from committing.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::store::{StateError, StateStore};

const NAME: &str = "lease.json";
/// How often the holder renews.
pub const RENEW: Duration = Duration::from_secs(3);
/// How long a lease that is not renewed is waited for. By the watcher's own clock: clocks of two
/// machines are never compared.
pub const PATIENCE: Duration = Duration::from_secs(12);

/// The lease as it stands in the state folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Epoch of the holder.
    pub epoch: u64,
    /// Counts the renewals.
    pub renewal: u64,
    /// Machine of the holder.
    pub host: String,
    /// Boot of that machine, so that a process id means something.
    pub boot: String,
    /// Process id of the holder.
    pub pid: u32,
    /// Start time of that process in clock ticks since the boot.
    pub started: u64,
    /// The holder has ended well.
    pub released: bool,
}

impl Lease {
    /// A lease of this process.
    pub fn mine(epoch: u64) -> Self {
        let pid = std::process::id();
        Self {
            epoch,
            renewal: 0,
            host: read_line("/proc/sys/kernel/hostname"),
            boot: read_line("/proc/sys/kernel/random/boot_id"),
            pid,
            started: process_start(pid).unwrap_or(0),
            released: false,
        }
    }

    /// The lease as it stands.
    pub async fn read(state: &StateStore) -> Result<Option<Self>, StateError> {
        state.read(&state.path(NAME)).await
    }

    /// False when the holder has certainly ended.
    pub fn may_be_held(&self) -> bool {
        !self.is_gone()
    }

    /// Waits until nobody holds the lease, for [`PATIENCE`] at the most: at once when the holder
    /// has ended well or is a process of this boot that is gone. `Err(holder)` when it is alive.
    pub async fn wait_free(state: &StateStore) -> Result<Result<(), Self>, StateError> {
        let path = state.path(NAME);
        let Some(first) = Self::read(state).await? else {
            return Ok(Ok(()));
        };
        if first.is_gone() {
            return Ok(Ok(()));
        }
        if first.is_here() {
            return Ok(Err(first));
        }
        let mut waited = Duration::ZERO;
        while waited < PATIENCE {
            sleep(Duration::from_millis(500)).await;
            waited += Duration::from_millis(500);
            match state.read::<Self>(&path).await? {
                Some(now) if now.released => return Ok(Ok(())),
                Some(now) if now != first => return Ok(Err(now)),
                Some(_) => {}
                None => return Ok(Ok(())),
            }
        }
        Ok(Ok(()))
    }

    /// Who runs the job now, when somebody does: at once for a process of this machine, else after
    /// watching for a renewal.
    pub async fn holder(state: &StateStore) -> Result<Option<Self>, StateError> {
        let Some(first) = Self::read(state).await?.filter(Self::may_be_held) else {
            return Ok(None);
        };
        if first.is_here() {
            return Ok(Some(first));
        }
        sleep(RENEW + Duration::from_secs(1)).await;
        let now = Self::read(state).await?;
        Ok(now.filter(|now| *now != first && !now.released))
    }

    /// Writes the lease, whoever had it: the job was taken by a record.
    pub async fn take(&mut self, state: &StateStore) -> Result<(), StateError> {
        self.renewal += 1;
        state.overwrite(&state.path(NAME), self).await
    }

    /// Writes the lease once more, unless a newer instance has the job.
    pub async fn renew(&mut self, state: &StateStore) -> Result<(), StateError> {
        match self.is_lost(state).await {
            true => Ok(()),
            false => self.take(state).await,
        }
    }

    /// Says that the holder has ended well, unless a newer instance has the job.
    pub async fn release(&mut self, state: &StateStore) -> Result<(), StateError> {
        self.released = true;
        self.renew(state).await
    }

    /// A newer instance has the job; it is the next record that tells this one. Its lease stays, or
    /// a third instance would take the job for free.
    async fn is_lost(&self, state: &StateStore) -> bool {
        matches!(Self::read(state).await, Ok(Some(now)) if now.epoch > self.epoch)
    }

    /// The holder has ended well, or is a process of this boot that no longer runs.
    fn is_gone(&self) -> bool {
        let here = Self::mine(0);
        let same_machine = self.host == here.host && self.boot == here.boot;
        self.released || (same_machine && process_start(self.pid) != Some(self.started))
    }

    /// The holder is a running process of this machine.
    fn is_here(&self) -> bool {
        let here = Self::mine(0);
        self.host == here.host
            && self.boot == here.boot
            && process_start(self.pid) == Some(self.started)
    }
}

fn read_line(path: &str) -> String {
    std::fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// Start time of a process, field 22 of `/proc/<pid>/stat` (proc(5)); `None` when there is none.
fn process_start(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold blanks: count from behind it.
    let (_, fields) = stat.rsplit_once(") ")?;
    let state = fields.split(' ').next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::{memory::InMemory, path::Path};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn free_held_released_and_abandoned() {
        let state = StateStore::new(Arc::new(InMemory::new()), Path::from("s"));
        assert!(Lease::wait_free(&state).await.unwrap().is_ok());

        let mut mine = Lease::mine(1);
        mine.take(&state).await.unwrap();
        assert!(
            Lease::wait_free(&state).await.unwrap().is_err(),
            "this process lives"
        );
        assert!(
            Lease::holder(&state).await.unwrap().is_some(),
            "this process lives"
        );

        mine.started += 1;
        mine.renew(&state).await.unwrap();
        assert!(
            Lease::wait_free(&state).await.unwrap().is_ok(),
            "that process is gone"
        );

        mine.host = "elsewhere".into();
        mine.renew(&state).await.unwrap();
        let renewing = tokio::spawn({
            let (state, mut lease) = (state.clone(), mine.clone());
            async move {
                loop {
                    sleep(RENEW).await;
                    lease.renew(&state).await.unwrap();
                }
            }
        });
        assert!(
            Lease::wait_free(&state).await.unwrap().is_err(),
            "renewed elsewhere"
        );
        assert!(
            Lease::holder(&state).await.unwrap().is_some(),
            "renewed elsewhere"
        );
        renewing.abort();
        assert!(
            Lease::wait_free(&state).await.unwrap().is_ok(),
            "not renewed for long"
        );
        assert!(
            Lease::holder(&state).await.unwrap().is_none(),
            "not renewed for long"
        );
    }
    /// An instance that was thought dead comes back: the lease stays with the newer one.
    #[tokio::test]
    async fn an_older_instance_leaves_the_lease_alone() {
        let state = StateStore::new(Arc::new(InMemory::new()), Path::from("s"));
        let (mut older, mut newer) = (Lease::mine(1), Lease::mine(2));
        older.take(&state).await.unwrap();
        newer.take(&state).await.unwrap();
        older.renew(&state).await.unwrap();
        older.release(&state).await.unwrap();
        assert_eq!(Lease::read(&state).await.unwrap(), Some(newer.clone()));
        newer.release(&state).await.unwrap();
        assert!(Lease::read(&state).await.unwrap().unwrap().released);
    }
}
